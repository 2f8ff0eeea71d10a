#include "src/cost/memory.h"

#include <algorithm>

#include "src/config/layer_shape.h"

namespace headwise::cost {
namespace {

using config::AttentionShape;
using config::ModelConfig;

constexpr int64_t kFloat = 4;  // bytes
// Of scores that exist at once (csrc/kernels/linear_cross_entropy/cpu/layout.h).
constexpr int64_t kLossBytes = int64_t{16} << 20, kLeastLossRows = 36, kMostLossRows = 576;
// Of memory that the ops keep for later results (csrc/ops/memory.cpp), at most. Batches differ in
// size, so that what is kept is seldom what the next one needs.
constexpr int64_t kKeptBytes = int64_t{64} << 20;

int64_t attention_parameters(const ModelConfig& model, const AttentionShape& shape) {
  const int64_t query = shape.heads * shape.head_width, key = shape.kv_heads * shape.head_width;
  const int64_t width = model.width;
  int64_t count = width * (query + 2 * key);
  if (model.attention_bias) count += query + 2 * key;
  if (model.output_projection) count += query * width + (model.attention_bias ? width : 0);
  return count;
}

int64_t feed_forward_parameters(const ModelConfig& model) {
  return 2 * model.width * model.feed_forward + model.feed_forward + model.width;
}

/// Floats per token that one residual branch keeps beside what its inside keeps: the sum that its
/// norm is taken of, and the norm. What dropout drops is drawn again.
int64_t residual_floats(const ModelConfig& model) { return 2 * model.width; }

int64_t query_side_floats(const AttentionShape& shape) {
  return 2 * shape.heads * shape.head_width + shape.heads;  // queries, head outputs, log-sum-exp
}

int64_t key_side_floats(const AttentionShape& shape) {
  return 2 * shape.kv_heads * shape.head_width;
}

/// ReLU reads from its result what it has let through.
int64_t feed_forward_floats(const ModelConfig& model) {
  if (model.activation == config::Activation::kRelu) return model.feed_forward;
  return model.feed_forward * (model.activation_dropout > 0 ? 3 : 2);
}

int64_t activation_floats(const ModelConfig& model, const BatchSize& batch) {
  const int64_t source = batch.source_tokens, target = batch.target_tokens;
  const int64_t embedding = model.width;
  const int64_t final_norm = model.norm == config::NormPlacement::kPre ? 2 * model.width : 0;
  int64_t floats = (source + target) * (embedding + final_norm);
  for (int64_t i = 0; i < model.encoder_layers; ++i) {
    const AttentionShape self = config::encoder_shape(model, i);
    floats += source * (2 * residual_floats(model) + query_side_floats(self) +
                        key_side_floats(self) + feed_forward_floats(model));
  }
  for (int64_t i = 0; i < model.decoder_layers; ++i) {
    const AttentionShape self = config::decoder_shape(model, i);
    const AttentionShape cross = config::cross_shape(model, i);
    floats +=
        target * (3 * residual_floats(model) + query_side_floats(self) + key_side_floats(self) +
                  query_side_floats(cross) + feed_forward_floats(model));
    floats += source * key_side_floats(cross);
  }
  return floats;
}

/// Gradients in flight while backward passes one layer of the decoder and the encoder's wait: of
/// both sides of a feed-forward block, and of queries, keys, values, output and input of an
/// attention.
int64_t backward_floats(const ModelConfig& model, const BatchSize& batch) {
  return (batch.source_tokens + batch.target_tokens) * (2 * model.feed_forward + 5 * model.width);
}

/// Results and gradients of all attentions of an update.
int64_t attention_result_floats(const ModelConfig& model, const BatchSize& batch) {
  const auto of = [](const AttentionShape& shape, int64_t queries, int64_t keys) {
    return queries * query_side_floats(shape) + keys * key_side_floats(shape);
  };
  const int64_t source = batch.source_tokens, target = batch.target_tokens;
  int64_t floats = 0;
  for (int64_t i = 0; i < model.encoder_layers; ++i) {
    floats += of(config::encoder_shape(model, i), source, source);
  }
  for (int64_t i = 0; i < model.decoder_layers; ++i) {
    floats += of(config::decoder_shape(model, i), target, target) +
              of(config::cross_shape(model, i), target, source);
  }
  return floats;
}

}  // namespace

int64_t parameter_count(const ModelConfig& model, int64_t source_pieces, int64_t target_pieces) {
  const int64_t width = model.width, norm = 2 * width;
  int64_t count = target_pieces * width;
  if (model.embeddings == config::Embeddings::kSeparate) count += source_pieces * width;
  if (!model.tied_output) count += target_pieces * width;
  if (model.norm == config::NormPlacement::kPre) count += 2 * norm;
  for (int64_t i = 0; i < model.encoder_layers; ++i) {
    count += attention_parameters(model, config::encoder_shape(model, i)) +
             feed_forward_parameters(model) + 2 * norm;
  }
  for (int64_t i = 0; i < model.decoder_layers; ++i) {
    count += attention_parameters(model, config::decoder_shape(model, i)) +
             attention_parameters(model, config::cross_shape(model, i)) +
             feed_forward_parameters(model) + 3 * norm;
  }
  return count;
}

TrainingMemory training_memory(const config::Config& config, int64_t source_pieces,
                               int64_t target_pieces, const BatchSize& whole, int64_t threads) {
  const ModelConfig& model = config.model;
  const int64_t shards = config.train.shards, at_once = std::min(shards, threads);
  const auto share = [&](int64_t tokens) { return tokens * at_once / shards; };
  const BatchSize largest{share(whole.source_tokens), share(whole.target_tokens)};
  TrainingMemory memory;
  memory.weights = kFloat * parameter_count(model, source_pieces, target_pieces);
  memory.gradients = shards * memory.weights;
  memory.moments = 2 * memory.weights;
  memory.average = config.train.ema > 0 ? memory.weights : 0;
  memory.activations =
      kFloat * (activation_floats(model, largest) + backward_floats(model, largest));
  // Scores of a chunk and the output weight transposed, as csrc/kernels/linear_cross_entropy lays
  // them out; gradients of the hidden states and the output weight, and both scaled.
  const int64_t rows = std::max(kLeastLossRows, largest.target_tokens / at_once);
  const int64_t chunk = std::clamp<int64_t>(kLossBytes / kFloat / target_pieces, kLeastLossRows,
                                            std::min(kMostLossRows, rows));
  memory.loss = kFloat * (at_once * (chunk + 3 * model.width) * target_pieces +
                          2 * largest.target_tokens * model.width);
  memory.kept =
      std::min(kKeptBytes, kFloat * attention_result_floats(model, largest) + memory.loss);
  return memory;
}

}  // namespace headwise::cost
