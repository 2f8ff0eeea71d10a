#include "src/train/run_parts.h"

#include "src/config/error.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/file.h"
#include "src/io/model_io.h"

namespace headwise::train {
namespace {

/// Optimiser moments, and the trained weights where model.safetensors holds their average.
io::Tensors train_state(const io::Tensors& parameters, const Optimizer& optimizer,
                        const MovingAverage* average) {
  io::Tensors tensors = optimizer.state();
  if (average == nullptr) return tensors;
  for (const auto& [name, parameter] : parameters) tensors["trained." + name] = parameter;
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
  io::copy_into(average ? average->averages() : parameters, io::load_tensors(model_file),
                model_file.string());
  io::copy_into(train_state(parameters, optimizer, average), io::load_tensors(state_file),
                state_file.string());
}

}  // namespace headwise::train
