// The mask checks on real modules: one of our own, or every attention module of a model.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "csrc/nn/multi_head_attention.h"
#include "src/analysis/mask_checks.h"
#include "src/model/transformer.h"

namespace headwise::analysis {

/// What was tried, in which form ("padded", "packed"), and what came of it.
struct MaskReport {
  std::string module, form;
  std::vector<MaskCheck> checks;
};

/// Tries a module on padded and on packed tokens. It must be in eval mode or without dropout.
/// @throws c10::Error for inputs it refuses.
std::vector<MaskReport> check_module_masks(const std::string& name, nn::MultiHeadAttention module,
                                           const MaskTrial& trial = {});

/// Tries every attention module of a model, "encoder 0 self", "decoder 0 self", "decoder 0 cross",
/// …, and then how the model uses them: the decoder must not see the future, no sentence another.
std::vector<MaskReport> check_model_masks(model::Transformer model, const MaskTrial& trial = {});

/// Every check that failed, in words.
std::vector<std::string> failures(const std::vector<MaskReport>& reports);

}  // namespace headwise::analysis
