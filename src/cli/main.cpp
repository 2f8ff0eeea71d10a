// The command `headwise`: declares the subcommands, runs the chosen one, turns errors into one line.
#include <c10/util/Exception.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <iostream>
#include <new>
#include <string>

#include "src/cli/command.h"
#include "src/cli/signals.h"
#include "src/config/error.h"
#include "src/config/interrupt.h"

namespace headwise::cli {
namespace {

int fail(const std::string& message, int exit_code) {
  std::cerr << "headwise: error: " << message << std::endl;
  return exit_code;
}

int run(const Action& action) {
  try {
    return action();
  } catch (const Interrupted& interrupted) {
    return 128 + interrupted.signal;
  } catch (const UserError& error) {
    return fail(error.what(), error.exit_code());
  } catch (const c10::Error& error) {
    return fail(error.what_without_backtrace(), kExitFailure);
  } catch (const std::bad_alloc&) {
    return fail("out of memory", kExitFailure);
  } catch (const std::exception& error) {
    return fail(error.what(), kExitFailure);
  }
}

/// Logs go to standard error, results to standard output; the log's level is HEADWISE_LOG's.
void set_up_logging() {
  spdlog::set_default_logger(spdlog::stderr_color_mt("headwise"));
  spdlog::set_pattern("%H:%M:%S %^%l%$ %v");
  const char* level = std::getenv("HEADWISE_LOG");
  if (level != nullptr) spdlog::set_level(spdlog::level::from_str(level));
}

}  // namespace
}  // namespace headwise::cli

int main(int argc, char** argv) {
  namespace cli = headwise::cli;
  cli::set_up_logging();
  cli::ignore_broken_pipes();
  CLI::App app{"Headwise: train small translation models, translate with them, look at them."};
  app.set_version_flag("--version", std::string("headwise ") + HEADWISE_VERSION);
  app.require_subcommand(1);
  cli::Action action;
  cli::add_corpus(app, action);
  cli::add_check(app, action);
  cli::add_config(app, action);
  cli::add_train(app, action);
  cli::add_translate(app, action);
  cli::add_score(app, action);
  cli::add_average(app, action);
  cli::add_inspect(app, action);
  cli::add_evaluate(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    return cli::fail(std::string(error.what()) + " (headwise --help lists what there is)",
                     headwise::kExitUsage);
  }
  return cli::run(action);
}
