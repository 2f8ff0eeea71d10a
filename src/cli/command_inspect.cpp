// headwise inspect MODEL: what a checkpoint holds.
#include <ATen/ATen.h>

#include <filesystem>
#include <memory>
#include <string>

#include "src/cli/command.h"
#include "src/cli/output.h"
#include "src/config/error.h"
#include "src/config/layer_shape.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/model_io.h"
#include "src/io/run_state.h"

namespace headwise::cli {
namespace {

std::string heads_text(const config::AttentionShape& shape) {
  return text_of(shape.heads, " heads, ", shape.kv_heads, " key/value heads of width ",
                 shape.head_width);
}

void print_model(const io::LoadedModel& loaded) {
  const config::ModelConfig& model = loaded.config.model;
  int64_t parameters = 0;
  for (const auto& item : io::parameters_of(*loaded.model)) parameters += item.second.numel();
  print(text_of("checkpoint    ", loaded.path.string(), "\n"));
  print(text_of("parameters    ", parameters, "\n"));
  print(text_of("width         ", model.width, ", feed-forward ", model.feed_forward, "\n"));
  print(text_of("vocabulary    ", loaded.vocabularies.source.size(), " source, ",
                loaded.vocabularies.target.size(), " target pieces, ",
                loaded.vocabularies.joint ? "joint" : "separate", "\n"));
  for (int64_t i = 0; i < model.encoder_layers; ++i) {
    print(text_of("encoder ", i, "     self ", heads_text(config::encoder_shape(model, i)), "\n"));
  }
  for (int64_t i = 0; i < model.decoder_layers; ++i) {
    print(text_of("decoder ", i, "     self ", heads_text(config::decoder_shape(model, i)),
                  "; cross ", heads_text(config::cross_shape(model, i)), "\n"));
  }
}

void print_state(const std::filesystem::path& checkpoint) {
  if (!std::filesystem::exists(checkpoint / io::kStateFile)) return;  // an average has none
  const io::RunState state = io::read_state(checkpoint / io::kStateFile);
  print(text_of("step          ", state.step, ", epoch ", state.position.epoch, ", ",
                state.target_tokens, " target pieces, ", state.skipped_updates,
                " skipped updates\n"));
  print(text_of("trained on    ", state.corpus, "\n"));
  print(text_of("trained with  ", state.machine.build, "; ", state.machine.cpu, "; ",
                state.machine.threads, " threads\n"));
  if (state.best_step > 0) {
    print(text_of("best so far   step ", state.best_step, ", ", state.best_value, "\n"));
  }
}

}  // namespace

void add_inspect(CLI::App& app, Action& action) {
  struct Arguments {
    std::string model;
    bool tensors = false;
  };
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand("inspect", "Verify a checkpoint and print what it holds");
  command->add_option("model", arguments->model, "a run's folder or one of its checkpoints")
      ->required();
  command->add_flag("--tensors", arguments->tensors, "also list every tensor with its shape");
  command->callback([arguments, &action] {
    action = [arguments] {
      const io::LoadedModel loaded = io::load_model(arguments->model);
      print_model(loaded);
      print_state(loaded.path);
      if (arguments->tensors) {
        for (const auto& [name, tensor] : io::parameters_of(*loaded.model)) {
          print(text_of(name, "\t", tensor.sizes(), "\n"));
        }
      }
      return int(kExitOk);
    };
  });
}

}  // namespace headwise::cli
