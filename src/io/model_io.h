// Models on disk: tensors as safetensors, and a whole checkpoint back as something that translates.
#pragma once

#include <ATen/core/Tensor.h>

#include <filesystem>
#include <map>
#include <string>

#include "src/config/config.h"
#include "src/data/subword.h"
#include "src/model/transformer.h"

namespace headwise::io {

using Tensors = std::map<std::string, at::Tensor>;

/// Writes CPU tensors (made contiguous) and syncs. @throws UserError as write_safetensors.
void save_tensors(const std::filesystem::path& path, const Tensors& tensors);

/// All tensors of a file, owning their memory. @throws UserError as SafetensorsFile.
Tensors load_tensors(const std::filesystem::path& path);

/// The parameters of a module by name, sharing storage.
Tensors parameters_of(const torch::nn::Module& module);

/// Copies `values` into `targets`; every name must be on both sides with the same shape and dtype.
/// @throws UserError naming `place` and each missing, surplus or misshapen tensor (the first few).
void copy_into(const Tensors& targets, const Tensors& values, const std::string& place);

/// Writes source.spm and, unless joint, target.spm.
void save_vocabularies(const std::filesystem::path& folder, const data::Vocabularies& vocabularies);
data::Vocabularies load_vocabularies(const std::filesystem::path& folder);

/// Two checkpoints must have the same subword models, byte by byte.
/// @throws UserError "cannot `verb` a and b: ..." where they differ.
void require_same_subwords(const std::filesystem::path& a, const std::filesystem::path& b,
                           const std::string& verb);

struct LoadedModel {
  config::Config config;
  data::Vocabularies vocabularies;
  model::Transformer model{nullptr};
  std::filesystem::path path;  // the checkpoint folder it came from
};

/// Verifies and loads a checkpoint; `path` as resolve_checkpoint takes it.
/// @throws UserError naming the file and what is wrong.
LoadedModel load_model(const std::filesystem::path& path);

}  // namespace headwise::io
