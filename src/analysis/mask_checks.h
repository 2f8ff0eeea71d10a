// Tries an attention function and says whether its masks do what they promise. The function is a
// black box: its outputs and weights are compared with what the masks mean, and its inputs are
// changed where a mask hides them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "csrc/nn/multi_head_attention.h"

namespace headwise::analysis {

/// query (B, T_q, …), key and value (B, T_k, …) give an output (B, T_q, E) and weights
/// (B, H, T_q, T_k). Must not draw dropout.
using AttentionFunction =
    std::function<nn::AttentionOutput(const at::Tensor& query, const at::Tensor& key,
                                      const at::Tensor& value, const nn::AttentionMasks& masks)>;

struct MaskSubject {
  std::string name;
  AttentionFunction attend;
  int64_t query_width = 0, key_width = 0, value_width = 0;
  bool same_lengths = false;  // as many queries as keys, always
  at::Tensor empty_row;       // (E): what a row gives that sees no key; zeros when undefined
  at::TensorOptions options;  // dtype of the inputs: float32 or float64
};

struct MaskTrial {
  int64_t batch = 3, queries = 12, keys = 9;  // keys = queries where same_lengths
  uint64_t seed = 1;
};

struct MaskCheck {
  std::string name;   // "hidden-weights"
  std::string found;  // what is wrong; empty when the check passed
  bool passed() const { return found.empty(); }
};

/// Name and meaning of every check, in the order in which check_masks gives them.
struct CheckMeaning {
  const char *name, *meaning;
};
const std::vector<CheckMeaning>& mask_check_meanings();

/// Runs every check. @throws whatever the function throws.
std::vector<MaskCheck> check_masks(const MaskSubject& subject, const MaskTrial& trial = {});

}  // namespace headwise::analysis
