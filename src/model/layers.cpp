#include "src/model/layers.h"

#include <ATen/ATen.h>

#include "src/config/layer_shape.h"

namespace headwise::model {
namespace {

nn::MultiHeadAttention make_attention(const config::ModelConfig& config,
                                      const config::AttentionShape& shape, bool rotary) {
  nn::MultiHeadAttentionOptions options;
  options.embed_dim = config.width;
  options.num_heads = shape.heads;
  options.num_kv_heads = shape.kv_heads;
  options.head_dim = shape.head_width;
  options.bias = config.attention_bias;
  options.dropout = config.attention_dropout;
  options.out_proj = config.output_projection;
  options.rotary = rotary;
  return nn::MultiHeadAttention(options);
}

bool rotary(const config::ModelConfig& config) {
  return config.positions == config::Positions::kRotary;
}

}  // namespace

FeedForwardImpl::FeedForwardImpl(const config::ModelConfig& config)
    : activation_(config.activation), dropout_(config.activation_dropout) {
  in_ = register_module("in", torch::nn::Linear(config.width, config.feed_forward));
  out_ = register_module("out", torch::nn::Linear(config.feed_forward, config.width));
}

at::Tensor FeedForwardImpl::forward(const at::Tensor& x) {
  const at::Tensor inner = in_->forward(x);
  const at::Tensor active =
      activation_ == config::Activation::kRelu ? at::relu(inner) : at::gelu(inner);
  return out_->forward(at::dropout(active, dropout_, is_training()));
}

ResidualImpl::ResidualImpl(const config::ModelConfig& config)
    : torch::nn::LayerNormImpl(torch::nn::LayerNormOptions({config.width})),
      norm_(config.norm),
      dropout_(config.dropout) {}

at::Tensor ResidualImpl::drop(const at::Tensor& x) const {
  return at::dropout(x, dropout_, is_training());
}

EncoderLayerImpl::EncoderLayerImpl(const config::ModelConfig& config, int64_t layer) {
  self_attention =
      register_module("self_attention",
                      make_attention(config, config::encoder_shape(config, layer), rotary(config)));
  self_attention_norm_ = register_module("self_attention_norm", Residual(config));
  feed_forward_ = register_module("feed_forward", FeedForward(config));
  feed_forward_norm_ = register_module("feed_forward_norm", Residual(config));
}

at::Tensor EncoderLayerImpl::forward(const at::Tensor& x, const nn::PackedSequences& sequences) {
  const at::Tensor attended = self_attention_norm_->apply(
      x, [&](const at::Tensor& y) { return self_attention->forward_packed(y, y, y, sequences); });
  return feed_forward_norm_->apply(attended,
                                   [&](const at::Tensor& y) { return feed_forward_->forward(y); });
}

DecoderLayerImpl::DecoderLayerImpl(const config::ModelConfig& config, int64_t layer) {
  self_attention =
      register_module("self_attention",
                      make_attention(config, config::decoder_shape(config, layer), rotary(config)));
  self_attention_norm_ = register_module("self_attention_norm", Residual(config));
  // Rotary positions are relative positions of one sequence; between two languages they mean
  // nothing.
  cross_attention = register_module(
      "cross_attention", make_attention(config, config::cross_shape(config, layer), false));
  cross_attention_norm_ = register_module("cross_attention_norm", Residual(config));
  feed_forward_ = register_module("feed_forward", FeedForward(config));
  feed_forward_norm_ = register_module("feed_forward_norm", Residual(config));
}

at::Tensor DecoderLayerImpl::forward(const at::Tensor& x, const at::Tensor& memory,
                                     const nn::PackedSequences& target,
                                     const nn::PackedSequences& cross) {
  const at::Tensor attended = self_attention_norm_->apply(x, [&](const at::Tensor& y) {
    return self_attention->forward_packed(y, y, y, target, /*causal=*/true);
  });
  const at::Tensor crossed = cross_attention_norm_->apply(attended, [&](const at::Tensor& y) {
    return cross_attention->forward_packed(y, memory, memory, cross);
  });
  return feed_forward_norm_->apply(crossed,
                                   [&](const at::Tensor& y) { return feed_forward_->forward(y); });
}

at::Tensor DecoderLayerImpl::step(const at::Tensor& x, LayerCache& cache,
                                  const at::Tensor& sentences) {
  const at::Tensor attended = self_attention_norm_->apply(x, [&](const at::Tensor& y) {
    return self_attention->forward_step(y.unsqueeze(1), cache.self).squeeze(1);
  });
  const at::Tensor crossed = cross_attention_norm_->apply(attended, [&](const at::Tensor& y) {
    return cross_attention->forward_cross_step(y.unsqueeze(1), cache.cross, sentences).squeeze(1);
  });
  return feed_forward_norm_->apply(crossed,
                                   [&](const at::Tensor& y) { return feed_forward_->forward(y); });
}

}  // namespace headwise::model
