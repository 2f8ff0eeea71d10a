// The command `headwise`: declares the subcommands, runs the chosen one, turns errors into one
// line.
#include <c10/util/Exception.h>

#include <CLI/CLI.hpp>
#include <iostream>
#include <new>
#include <string>
#include <vector>

#include "src/cli/command.h"
#include "src/cli/output.h"
#include "src/cli/signals.h"
#include "src/config/error.h"
#include "src/config/interrupt.h"
#include "src/log/log.h"

namespace headwise::cli {
namespace {

int fail(const std::string& message, int exit_code) {
  std::cerr << "headwise: error: " << message << std::endl;
  return exit_code;
}

/// CLI11 says of an unknown command only that one is required.
std::string usage_message(const CLI::App& app, const CLI::ParseError& error) {
  const std::vector<std::string> unknown = app.remaining();
  const bool has_command = !app.get_subcommands().empty();
  return (has_command || unknown.empty() ? std::string(error.what())
                                         : "there is no command \"" + unknown.front() + '"') +
         " (headwise --help lists what there is)";
}

int run(const Action& action) {
  try {
    const int exit_code = action();
    flush_output();
    return exit_code;
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

}  // namespace
}  // namespace headwise::cli

int main(int argc, char** argv) {
  namespace cli = headwise::cli;
  headwise::log::set_up();
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
  cli::add_shapes(app, action);
  cli::add_check_masks(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForAllHelp& help) {
    return app.exit(help);
  } catch (const CLI::CallForVersion& version) {
    return app.exit(version);
  } catch (const CLI::ParseError& error) {
    return cli::fail(cli::usage_message(app, error), headwise::kExitUsage);
  }
  return cli::run(action);
}
