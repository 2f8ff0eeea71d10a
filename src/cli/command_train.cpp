// headwise train CONFIG --output DIR [--resume] [--set section.key=value …]
#include <ATen/Parallel.h>
#include <malloc.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "src/cli/command.h"
#include "src/cli/signals.h"
#include "src/config/error.h"
#include "src/config/load.h"
#include "src/io/checkpoint_folder.h"
#include "src/log/log.h"
#include "src/train/prepare.h"
#include "src/train/trainer.h"

namespace headwise::cli {
namespace {

struct TrainArguments {
  std::string config, output;
  bool resume = false;
  std::vector<std::string> overrides;
};

/// Keeps freed blocks in the process: a training step asks for the same sizes again and again, and
/// handing them back costs a page fault for every 4 KiB.
void keep_freed_memory() {
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 64 << 20);
}

void make_folder(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw UserError("cannot make the folder " + folder.string() + ": " + error.message());
}

int train(const TrainArguments& arguments) {
  const config::Resolved settings = config::load(arguments.config, arguments.overrides);
  const int64_t threads = settings.config.train.threads;
  if (threads > 0) at::set_num_threads(int(threads));
  keep_freed_memory();
  make_folder(arguments.output);
  const io::RunLock lock(arguments.output);
  train::Prepared prepared = train::prepare(settings, arguments.output, arguments.resume);
  log::info("threads ", at::get_num_threads(), ", CPU ", prepared.parts.state.machine.cpu);
  catch_stop_signals();
  train::Trainer trainer(std::move(prepared.parts), prepared.checkpoint);
  trainer.run(stop_signal_safe_point());
  log::info("translate with: headwise translate ", arguments.output);
  return kExitOk;
}

}  // namespace

void add_train(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Train a model as a configuration file says");
  command->add_option("config", arguments->config, "TOML file; `headwise config` explains the keys")
      ->required();
  command->add_option("--output", arguments->output, "folder of the run")->required();
  command->add_flag("--resume", arguments->resume, "go on from the newest whole checkpoint");
  command->add_option("--set", arguments->overrides, "section.key=value; beats the file");
  command->callback([arguments, &action] { action = [arguments] { return train(*arguments); }; });
}

}  // namespace headwise::cli
