// Small models and batches for the tests of src/model.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <vector>

#include "csrc/ops/packed_transformer.h"
#include "src/config/config.h"
#include "src/model/transformer.h"

namespace headwise::model::testing {

inline config::ModelConfig small_config() {
  config::ModelConfig config;
  config.width = 16;
  config.feed_forward = 24;
  config.encoder_layers = 2;
  config.decoder_layers = 2;
  config.encoder_heads = {4};
  config.decoder_heads = {4};
  config.cross_heads = {4};
  config.dropout = 0;
  return config;
}

/// Every variation of the architecture that a configuration can ask for, alone and together.
inline std::vector<config::ModelConfig> variations() {
  std::vector<config::ModelConfig> all(8, small_config());
  all[1].norm = config::NormPlacement::kPost;
  all[2].activation = config::Activation::kGelu;
  all[3].positions = config::Positions::kRotary;
  all[4].embeddings = config::Embeddings::kSeparate;
  all[4].tied_output = false;
  all[5].encoder_kv_heads = {2};
  all[5].decoder_kv_heads = {1};
  all[5].cross_kv_heads = {2};
  all[6].encoder_heads = {4, 3};  // per layer, as a pruned model has them
  all[6].decoder_heads = {2, 1};
  all[6].cross_heads = {3, 2};
  all[6].head_width = 6;
  all[6].attention_bias = false;
  all[7] = all[5];
  all[7].output_projection = false;
  all[7].norm = config::NormPlacement::kPost;
  all[7].positions = config::Positions::kRotary;
  return all;
}

inline PackedTokens packed(const std::vector<std::vector<int64_t>>& sentences) {
  std::vector<int64_t> tokens, positions;
  std::vector<int32_t> starts = {0};
  int64_t longest = 0;
  for (const auto& sentence : sentences) {
    for (size_t i = 0; i < sentence.size(); ++i) {
      tokens.push_back(sentence[i]);
      positions.push_back(int64_t(i));
    }
    starts.push_back(int32_t(tokens.size()));
    longest = std::max(longest, int64_t(sentence.size()));
  }
  return {at::tensor(tokens, at::kLong), at::tensor(positions, at::kLong),
          at::tensor(starts, at::kInt), longest};
}

/// The same sentences for a packed model.
inline SourceTokens joined(const std::vector<std::vector<int64_t>>& sentences) {
  SourceTokens source;
  for (const auto& ids : sentences) {
    source.tokens.insert(source.tokens.end(), ids.begin(), ids.end());
    source.starts.push_back(int64_t(source.tokens.size()));
  }
  return source;
}

inline Transformer double_model(const config::ModelConfig& config, int64_t pieces = 11) {
  at::manual_seed(3);
  Transformer model(config, pieces, pieces);
  model->to(at::kDouble);
  model->eval();
  // Biases and norms too, which begin as 0 and 1, are random.
  const at::NoGradGuard no_grad;
  for (at::Tensor& parameter : model->parameters()) {
    if (parameter.dim() == 1) parameter.add_(at::randn_like(parameter), 0.2);
  }
  return model;
}

}  // namespace headwise::model::testing
