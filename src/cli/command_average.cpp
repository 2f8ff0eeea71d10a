// headwise average CHECKPOINT… --output DIR
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "src/cli/command.h"
#include "src/cli/output.h"
#include "src/config/error.h"
#include "src/io/average.h"
#include "src/io/checkpoint_folder.h"

namespace headwise::cli {
namespace {

/// The folder without a slash at its end; one that exists is never replaced.
std::filesystem::path new_folder(const std::string& output) {
  std::filesystem::path folder = std::filesystem::absolute(output).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  if (std::filesystem::exists(std::filesystem::symlink_status(folder))) {
    throw UserError(output + " exists already; name a new folder with --output");
  }
  return folder;
}

}  // namespace

void add_average(CLI::App& app, Action& action) {
  struct Arguments {
    std::vector<std::string> checkpoints;
    std::string output;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command =
      app.add_subcommand("average", "Make one model of the mean of several checkpoints' weights");
  command->add_option("checkpoints", arguments->checkpoints, "checkpoint folders of one model")
      ->required();
  command->add_option("--output", arguments->output, "folder of the new checkpoint")->required();
  command->callback([arguments, &action] {
    action = [arguments] {
      const std::filesystem::path output = new_folder(arguments->output);
      std::vector<std::filesystem::path> checkpoints;
      for (const std::string& path : arguments->checkpoints) {
        checkpoints.push_back(io::resolve_checkpoint(path));
      }
      io::write_average(checkpoints, output);
      print(text_of("mean of ", checkpoints.size(), " checkpoints: ", arguments->output, "\n"));
      return int(kExitOk);
    };
  });
}

}  // namespace headwise::cli
