// headwise config: every key with its default, or what a file and --set resolve to.
#include <memory>
#include <string>
#include <vector>

#include "src/cli/command.h"
#include "src/cli/output.h"
#include "src/config/error.h"
#include "src/config/load.h"

namespace headwise::cli {

void add_config(CLI::App& app, Action& action) {
  struct Options {
    std::string file;
    std::vector<std::string> overrides;
  };
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("config", "Print every key with its default, or a resolved file");
  command->add_option("file", options->file,
                      "Configuration (TOML): print it complete, with the origin of each value");
  command->add_option("--set", options->overrides, "section.key=value, in place of the file's")
      ->needs("file");
  command->callback([options, &action] {
    action = [options] {
      const bool resolves = !options->file.empty();
      print(resolves ? config::to_toml(config::load(options->file, options->overrides))
                     : config::reference());
      return static_cast<int>(kExitOk);
    };
  });
}

}  // namespace headwise::cli
