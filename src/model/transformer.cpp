#include "src/model/transformer.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>
#include <torch/nn/init.h>

#include <cmath>
#include <string>

#include "csrc/ops/activation_dropout.h"
#include "src/config/layer_shape.h"
#include "src/model/positions.h"

namespace headwise::model {

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
    encoder_norm_ = register_module("encoder_norm", Residual(config));
    decoder_norm_ = register_module("decoder_norm", Residual(config));
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
  const std::scoped_lock lock(position_mutex_);
  if (!position_table_.defined() || position_table_.size(0) < length ||
      position_table_.dtype() != options.dtype()) {
    // It may outlive this pass and meet another that is differentiated.
    const c10::InferenceMode ordinary(false);
    int64_t rows = 64;
    while (rows < length) rows *= 2;
    position_table_ = sinusoidal_table(rows, config_.width, options);
  }
  return position_table_;
}

at::Tensor TransformerImpl::embed(torch::nn::Embedding& embedding, const at::Tensor& tokens,
                                  const at::Tensor& positions, int64_t length,
                                  DropoutStreams& streams) {
  const double scale = std::sqrt(double(config_.width));
  at::Tensor x = embedding->forward(tokens);
  if (config_.positions == config::Positions::kSinusoidal) {
    const at::Tensor table = positions_up_to(length, x.options().requires_grad(false));
    x = at::add(table.index_select(0, positions), x, scale);
  } else {
    x = x * scale;
  }
  const DropoutOptions dropout = streams.next(is_training() ? config_.dropout : 0.0);
  return dropout.drops() ? activation_dropout(x, std::nullopt, "none", dropout) : x;
}

Memory TransformerImpl::encode(const PackedTokens& source, DropoutStreams& streams) {
  const nn::PackedSequences sequences{source.starts, source.starts, source.longest, source.longest};
  ResidualStream stream{
      embed(source_embedding_, source.tokens, source.positions, source.longest, streams), {}};
  for (EncoderLayer& layer : encoder) layer->forward(stream, sequences, streams);
  if (encoder_norm_) stream.x = encoder_norm_->add_and_norm(stream, streams);
  return {stream.x, source.starts, source.longest};
}

Memory TransformerImpl::encode(const PackedTokens& source) {
  DropoutStreams streams;
  return encode(source, streams);
}

at::Tensor TransformerImpl::decode(const PackedTokens& target, const Memory& memory,
                                   DropoutStreams& streams) {
  const nn::PackedSequences self{target.starts, target.starts, target.longest, target.longest};
  const nn::PackedSequences cross{target.starts, memory.starts, target.longest, memory.longest};
  ResidualStream stream{
      embed(target_embedding_, target.tokens, target.positions, target.longest, streams), {}};
  for (DecoderLayer& layer : decoder) layer->forward(stream, memory.states, self, cross, streams);
  return decoder_norm_ ? decoder_norm_->add_and_norm(stream, streams) : stream.x;
}

at::Tensor TransformerImpl::decode(const PackedTokens& target, const Memory& memory) {
  DropoutStreams streams;
  return decode(target, memory, streams);
}

void TransformerImpl::train_in_bfloat16(bool yes) {
  trains_in_bfloat16_ = yes;
  for (EncoderLayer& layer : encoder) layer->train_in_bfloat16(yes);
  for (DecoderLayer& layer : decoder) layer->train_in_bfloat16(yes);
}

at::Tensor TransformerImpl::output_weight() const {
  return config_.tied_output ? target_embedding_->weight : output_->weight;
}

at::Tensor TransformerImpl::logits(const at::Tensor& hidden) {
  return at::linear(hidden, output_weight());
}

}  // namespace headwise::model
