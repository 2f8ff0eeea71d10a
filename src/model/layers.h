// Encoder and decoder layers on packed tokens (N, E): attention knows the sentences, nothing else
// does.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include "csrc/nn/multi_head_attention.h"
#include "src/config/config.h"

namespace headwise::model {

/// W_out · activation(W_in · x).
class FeedForwardImpl : public torch::nn::Module {
 public:
  explicit FeedForwardImpl(const config::ModelConfig& config);
  at::Tensor forward(const at::Tensor& x);

 private:
  config::Activation activation_;
  double dropout_;
  torch::nn::Linear in_{nullptr}, out_{nullptr};
};
TORCH_MODULE(FeedForward);

/// x + dropout(branch(norm(x))), or norm(x + dropout(branch(x))) when the norm comes after.
class ResidualImpl : public torch::nn::LayerNormImpl {
 public:
  explicit ResidualImpl(const config::ModelConfig& config);
  template <typename Branch>
  at::Tensor apply(const at::Tensor& x, const Branch& branch) {
    if (norm_ == config::NormPlacement::kPre) return x + drop(branch(forward(x)));
    return forward(x + drop(branch(x)));
  }

 private:
  at::Tensor drop(const at::Tensor& x) const;

  config::NormPlacement norm_;
  double dropout_;
};
TORCH_MODULE(Residual);

class EncoderLayerImpl : public torch::nn::Module {
 public:
  EncoderLayerImpl(const config::ModelConfig& config, int64_t layer);
  /// x (N, E) packed; `sequences` names the sentences.
  at::Tensor forward(const at::Tensor& x, const nn::PackedSequences& sequences);

  nn::MultiHeadAttention self_attention{nullptr};

 private:
  FeedForward feed_forward_{nullptr};
  Residual self_attention_norm_{nullptr}, feed_forward_norm_{nullptr};
};
TORCH_MODULE(EncoderLayer);

/// What one decoder layer remembers between steps: own keys/values, and the source's, made once.
struct LayerCache {
  nn::KeyValueCache self;
  nn::CrossCache cross;
};

class DecoderLayerImpl : public torch::nn::Module {
 public:
  DecoderLayerImpl(const config::ModelConfig& config, int64_t layer);
  /// x (N_t, E), memory (N_s, E), both packed.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& memory,
                     const nn::PackedSequences& target, const nn::PackedSequences& cross);
  /// x (R, E): one new token for each live row; `sentences` (R) int32 names its source sentence.
  at::Tensor step(const at::Tensor& x, LayerCache& cache, const at::Tensor& sentences);

  nn::MultiHeadAttention self_attention{nullptr}, cross_attention{nullptr};

 private:
  FeedForward feed_forward_{nullptr};
  Residual self_attention_norm_{nullptr}, cross_attention_norm_{nullptr},
      feed_forward_norm_{nullptr};
};
TORCH_MODULE(DecoderLayer);

}  // namespace headwise::model
