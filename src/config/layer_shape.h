// Sizes derived from a model's configuration: what each attention of each layer looks like.
#pragma once

#include <cstdint>

#include "src/config/config.h"

namespace headwise::config {

/// Heads of one attention. H query heads, G key/value heads, D head width.
struct AttentionShape {
  int64_t heads = 0, kv_heads = 0, head_width = 0;
};

/// Products of bfloat16 (csrc/ops/linear_bfloat16.h) need all widths to be multiples of this.
constexpr int64_t kBFloat16WidthMultiple = 32;
/// The first width of a linear layer that is not; 0 if all are.
int64_t width_unfit_for_bfloat16(const ModelConfig& config);

AttentionShape encoder_shape(const ModelConfig& config, int64_t layer);
AttentionShape decoder_shape(const ModelConfig& config, int64_t layer);
AttentionShape cross_shape(const ModelConfig& config, int64_t layer);

}  // namespace headwise::config
