#include "src/model/transformer.h"

#include <ATen/ATen.h>
#include <torch/nn/init.h>

#include <cmath>
#include <string>

#include "src/config/layer_shape.h"
#include "src/model/positions.h"

namespace headwise::model {

int64_t DecoderState::bytes() const {
  int64_t total = 0;
  for (const LayerCache& layer : layers) total += layer.self.bytes() + layer.cross.bytes();
  return total;
}

TransformerImpl::TransformerImpl(const config::ModelConfig& config, int64_t source_vocabulary,
                                 int64_t target_vocabulary)
    : config_(config) {
  const bool shared = config.embeddings == config::Embeddings::kShared;
  TORCH_CHECK(!shared || source_vocabulary == target_vocabulary,
              "shared embeddings need one vocabulary; got ", source_vocabulary, " source and ",
              target_vocabulary, " target pieces");
  const auto embedding = [&](int64_t pieces) {
    return torch::nn::Embedding(torch::nn::EmbeddingOptions(pieces, config.width));
  };
  if (shared) {
    source_embedding_ = register_module("embedding", embedding(source_vocabulary));
    target_embedding_ = source_embedding_;
  } else {
    source_embedding_ = register_module("source_embedding", embedding(source_vocabulary));
    target_embedding_ = register_module("target_embedding", embedding(target_vocabulary));
  }
  for (int64_t i = 0; i < config.encoder_layers; ++i) {
    encoder.push_back(register_module("encoder_" + std::to_string(i), EncoderLayer(config, i)));
  }
  for (int64_t i = 0; i < config.decoder_layers; ++i) {
    decoder.push_back(register_module("decoder_" + std::to_string(i), DecoderLayer(config, i)));
  }
  if (config.norm == config::NormPlacement::kPre) {
    const torch::nn::LayerNormOptions width({config.width});
    encoder_norm_ = register_module("encoder_norm", torch::nn::LayerNorm(width));
    decoder_norm_ = register_module("decoder_norm", torch::nn::LayerNorm(width));
  }
  if (!config.tied_output) {
    output_ = register_module(
        "output",
        torch::nn::Linear(torch::nn::LinearOptions(config.width, target_vocabulary).bias(false)));
  }
  initialise();
}

void TransformerImpl::initialise() {
  torch::NoGradGuard no_grad;
  // Attention initialises itself. Embeddings are scaled by sqrt(E) on the way in, so that tied
  // output scores start near unit variance.
  const double deviation = 1.0 / std::sqrt(double(config_.width));
  torch::nn::init::normal_(source_embedding_->weight, 0.0, deviation);
  if (config_.embeddings == config::Embeddings::kSeparate) {
    torch::nn::init::normal_(target_embedding_->weight, 0.0, deviation);
  }
  for (auto& item : named_parameters()) {
    const bool dense =
        item.key().find("feed_forward.") != std::string::npos || item.key() == "output.weight";
    if (!dense) continue;
    if (item.value().dim() == 2) {
      torch::nn::init::xavier_uniform_(item.value());
    } else {
      torch::nn::init::zeros_(item.value());
    }
  }
}

at::Tensor TransformerImpl::positions_up_to(int64_t length, const at::TensorOptions& options) {
  if (!position_table_.defined() || position_table_.size(0) < length ||
      position_table_.dtype() != options.dtype()) {
    int64_t rows = 64;
    while (rows < length) rows *= 2;
    position_table_ = sinusoidal_table(rows, config_.width, options);
  }
  return position_table_;
}

at::Tensor TransformerImpl::embed(torch::nn::Embedding& embedding, const at::Tensor& tokens,
                                  const at::Tensor& positions) {
  at::Tensor x = embedding->forward(tokens) * std::sqrt(double(config_.width));
  if (config_.positions == config::Positions::kSinusoidal) {
    const int64_t length = positions.numel() == 0 ? 0 : positions.max().item<int64_t>() + 1;
    x = x + positions_up_to(length, x.options().requires_grad(false)).index_select(0, positions);
  }
  return at::dropout(x, config_.dropout, is_training());
}

Memory TransformerImpl::encode(const PackedTokens& source) {
  const nn::PackedSequences sequences{source.starts, source.starts, source.longest, source.longest};
  at::Tensor x = embed(source_embedding_, source.tokens, source.positions);
  for (EncoderLayer& layer : encoder) x = layer->forward(x, sequences);
  if (encoder_norm_) x = encoder_norm_->forward(x);
  return {x, source.starts, source.longest};
}

at::Tensor TransformerImpl::decode(const PackedTokens& target, const Memory& memory) {
  const nn::PackedSequences self{target.starts, target.starts, target.longest, target.longest};
  const nn::PackedSequences cross{target.starts, memory.starts, target.longest, memory.longest};
  at::Tensor x = embed(target_embedding_, target.tokens, target.positions);
  for (DecoderLayer& layer : decoder) x = layer->forward(x, memory.states, self, cross);
  return decoder_norm_ ? decoder_norm_->forward(x) : x;
}

at::Tensor TransformerImpl::output_weight() const {
  return config_.tied_output ? target_embedding_->weight : output_->weight;
}

at::Tensor TransformerImpl::logits(const at::Tensor& hidden) {
  return at::linear(hidden, output_weight());
}

DecoderState TransformerImpl::start(const Memory& memory, int64_t rows, int64_t capacity) {
  DecoderState state;
  const int64_t sentences = memory.starts.size(0) - 1;
  for (int64_t i = 0; i < config_.decoder_layers; ++i) {
    const config::AttentionShape shape = config::decoder_shape(config_, i);
    LayerCache cache;
    cache.self = nn::KeyValueCache(rows, shape.kv_heads, capacity, shape.head_width,
                                   memory.states.options().requires_grad(false));
    cache.cross = decoder[size_t(i)]->cross_attention->cross_cache(memory.states, memory.states,
                                                                   memory.starts, memory.longest);
    state.layers.push_back(std::move(cache));
  }
  state.sentences = at::arange(sentences, at::kLong);
  return state;
}

at::Tensor TransformerImpl::step(DecoderState& state, const at::Tensor& tokens,
                                 const at::Tensor& parents) {
  state.sentences = state.sentences.index_select(0, parents);
  const at::Tensor sentences = state.sentences.to(at::kInt);
  const at::Tensor positions = at::full({tokens.size(0)}, state.position, at::kLong);
  at::Tensor x = embed(target_embedding_, tokens, positions);
  for (size_t i = 0; i < decoder.size(); ++i) {
    state.layers[i].self.reorder(parents);
    x = decoder[i]->step(x, state.layers[i], sentences);
  }
  ++state.position;
  if (decoder_norm_) x = decoder_norm_->forward(x);
  return at::log_softmax(logits(x), -1);
}

}  // namespace headwise::model
