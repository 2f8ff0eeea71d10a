// The masks that are tried, and what they mean, written down apart from the op.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "csrc/nn/multi_head_attention.h"
#include "src/analysis/mask_checks.h"

namespace headwise::analysis {

struct MaskCase {
  std::string name;  // "causal"
  nn::AttentionMasks masks;
  at::Tensor hidden;  // (B, T_q, T_k) bool: what `masks` mean
};

struct MaskInputs {
  at::Tensor query, key, value;
};

/// Pseudo-random inputs whose entries have the given standard deviation.
MaskInputs make_inputs(const MaskSubject& subject, const MaskTrial& trial, double deviation);

/// What is hidden: past a length, to the right of a causal row's last key, or by `hide`.
at::Tensor hidden_by(const nn::AttentionMasks& masks, const MaskTrial& trial);

MaskCase hide_case(const MaskTrial& trial);
MaskCase causal_case(const MaskTrial& trial);
MaskCase padding_case(const MaskTrial& trial, bool same_lengths);
/// The three together.
MaskCase combined_case(const MaskTrial& trial, bool same_lengths);
/// Some rows see nothing.
MaskCase empty_rows_case(const MaskTrial& trial);

}  // namespace headwise::analysis
