// headwise average CHECKPOINT… --output DIR
#include <memory>
#include <string>
#include <vector>

#include "src/cli/command.h"
#include "src/cli/output.h"
#include "src/config/error.h"
#include "src/io/average.h"
#include "src/io/checkpoint_folder.h"

namespace headwise::cli {

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
      std::vector<std::filesystem::path> checkpoints;
      for (const std::string& path : arguments->checkpoints) {
        checkpoints.push_back(io::resolve_checkpoint(path));
      }
      io::write_average(checkpoints, arguments->output);
      print(text_of("mean of ", checkpoints.size(), " checkpoints: ", arguments->output, "\n"));
      return int(kExitOk);
    };
  });
}

}  // namespace headwise::cli
