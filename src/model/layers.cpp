#include "src/model/layers.h"

#include <ATen/ATen.h>

#include "csrc/nn/linear_layers.h"
#include "csrc/ops/activation_dropout.h"
#include "csrc/ops/linear_bfloat16.h"
#include "csrc/ops/residual_norm.h"
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

at::Tensor FeedForwardImpl::forward(const at::Tensor& x, DropoutStreams& streams) {
  const DropoutOptions dropout = streams.next(is_training() ? dropout_ : 0.0);
  const bool bfloat16 = trains_in_bfloat16 && is_training();
  const auto linear = [&](const torch::nn::Linear& layer, const at::Tensor& from) {
    return bfloat16 ? nn::linear_layers_bfloat16(from, {layer})[0]
                    : at::linear(from, layer->weight, layer->bias);
  };
  at::Tensor active;
  if (activation_ == config::Activation::kRelu) {
    const at::Tensor inner =
        bfloat16 ? linear_bfloat16(x, {in_->weight}, {})[0] : at::mm(x, in_->weight.t());
    active = activation_dropout(inner, in_->bias, "relu", dropout);
  } else {
    active = at::gelu(linear(in_, x));
    if (dropout.drops()) active = activation_dropout(active, std::nullopt, "none", dropout);
  }
  return linear(out_, active);
}

ResidualImpl::ResidualImpl(const config::ModelConfig& config)
    : torch::nn::LayerNormImpl(torch::nn::LayerNormOptions({config.width})),
      norm_(config.norm),
      dropout_(config.dropout) {}

at::Tensor ResidualImpl::add_and_norm(ResidualStream& stream, DropoutStreams& streams) {
  if (!stream.branch.defined()) return forward(stream.x);
  const auto [sum, normed] = residual_norm(stream.x, stream.branch, weight, bias, options.eps(),
                                           streams.next(is_training() ? dropout_ : 0.0));
  stream.x = sum;
  return normed;
}

EncoderLayerImpl::EncoderLayerImpl(const config::ModelConfig& config, int64_t layer) {
  self_attention =
      register_module("self_attention",
                      make_attention(config, config::encoder_shape(config, layer), rotary(config)));
  self_attention_norm_ = register_module("self_attention_norm", Residual(config));
  feed_forward_ = register_module("feed_forward", FeedForward(config));
  feed_forward_norm_ = register_module("feed_forward_norm", Residual(config));
}

void EncoderLayerImpl::forward(ResidualStream& stream, const nn::PackedSequences& sequences,
                               DropoutStreams& streams) {
  self_attention_norm_->apply(stream, streams, [&](const at::Tensor& y) {
    return self_attention->forward_packed(y, y, y, sequences, streams.next_rules(false));
  });
  feed_forward_norm_->apply(
      stream, streams, [&](const at::Tensor& y) { return feed_forward_->forward(y, streams); });
}

void EncoderLayerImpl::train_in_bfloat16(bool yes) {
  self_attention->trains_in_bfloat16 = feed_forward_->trains_in_bfloat16 = yes;
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

void DecoderLayerImpl::forward(ResidualStream& stream, const at::Tensor& memory,
                               const nn::PackedSequences& target, const nn::PackedSequences& cross,
                               DropoutStreams& streams) {
  self_attention_norm_->apply(stream, streams, [&](const at::Tensor& y) {
    return self_attention->forward_packed(y, y, y, target, streams.next_rules(/*causal=*/true));
  });
  cross_attention_norm_->apply(stream, streams, [&](const at::Tensor& y) {
    return cross_attention->forward_packed(y, memory, memory, cross, streams.next_rules(false));
  });
  feed_forward_norm_->apply(
      stream, streams, [&](const at::Tensor& y) { return feed_forward_->forward(y, streams); });
}

void DecoderLayerImpl::train_in_bfloat16(bool yes) {
  self_attention->trains_in_bfloat16 = cross_attention->trains_in_bfloat16 = yes;
  feed_forward_->trains_in_bfloat16 = yes;
}

}  // namespace headwise::model
