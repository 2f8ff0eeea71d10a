// Sizes derived from a model's configuration: what each attention of each layer looks like.
#pragma once

#include <cstdint>

#include "src/config/config.h"

namespace headwise::config {

/// Heads of one attention. H query heads, G key/value heads, D head width.
struct AttentionShape {
  int64_t heads = 0, kv_heads = 0, head_width = 0;
};

AttentionShape encoder_shape(const ModelConfig& config, int64_t layer);
AttentionShape decoder_shape(const ModelConfig& config, int64_t layer);
AttentionShape cross_shape(const ModelConfig& config, int64_t layer);

}  // namespace headwise::config
