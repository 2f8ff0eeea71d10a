#include "src/train/run_parts.h"

#include "src/config/error.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/file.h"
#include "src/io/model_io.h"

namespace headwise::train {
namespace {

const std::string kTrained = "trained.";

/// Optimiser moments, and the trained weights where model.safetensors holds their average.
io::Tensors train_state(const io::Tensors& parameters, const Optimizer& optimizer,
                        const MovingAverage* average) {
  io::Tensors tensors = optimizer.state();
  if (average == nullptr) return tensors;
  for (const auto& [name, parameter] : parameters) tensors[kTrained + name] = parameter;
  return tensors;
}

}  // namespace

void save_checkpoint(const RunParts& parts, const std::string& name, const Optimizer& optimizer,
                     const MovingAverage* average) {
  const io::Tensors parameters = io::parameters_of(*parts.model);
  io::publish(parts.folder, name, [&](const std::filesystem::path& folder) {
    io::save_tensors(folder / io::kModelFile, average ? average->averages() : parameters);
    io::save_tensors(folder / io::kTrainStateFile, train_state(parameters, optimizer, average));
    io::save_vocabularies(folder, parts.vocabularies);
    io::write_state(folder / io::kStateFile, parts.state);
    io::write_file(folder / io::kConfigFile, config::to_toml(parts.settings));
  });
}

void load_checkpoint(const std::filesystem::path& checkpoint, const RunParts& parts,
                     const Optimizer& optimizer, const MovingAverage* average) {
  const io::Tensors parameters = io::parameters_of(*parts.model);
  const std::filesystem::path model_file = checkpoint / io::kModelFile;
  const std::filesystem::path state_file = checkpoint / io::kTrainStateFile;
  const io::Tensors weights = io::load_tensors(model_file);
  io::Tensors state = io::load_tensors(state_file);
  // Whether there was an average is the checkpoint's to say: train.ema may have been set since.
  io::Tensors trained;
  for (const auto& [name, parameter] : parameters) {
    const auto found = state.find(kTrained + name);
    if (found == state.end()) continue;
    trained[name] = found->second;
    state.erase(found);
  }
  io::copy_into(parameters, trained.empty() ? weights : trained,
                (trained.empty() ? model_file : state_file).string());
  if (average != nullptr) io::copy_into(average->averages(), weights, model_file.string());
  io::copy_into(optimizer.state(), state, state_file.string());
}

}  // namespace headwise::train
