// Encoder and decoder layers on packed tokens (N, E): attention knows the sentences, nothing else
// does.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/pimpl.h>

#include "csrc/nn/multi_head_attention.h"
#include "src/config/config.h"
#include "src/model/dropout_streams.h"

namespace headwise::model {

/// W_out · dropout(activation(W_in · x)).
class FeedForwardImpl : public torch::nn::Module {
 public:
  explicit FeedForwardImpl(const config::ModelConfig& config);
  at::Tensor forward(const at::Tensor& x, DropoutStreams& streams);

  bool trains_in_bfloat16 = false;  // as MultiHeadAttention's

 private:
  config::Activation activation_;
  double dropout_;
  torch::nn::Linear in_{nullptr}, out_{nullptr};
};
TORCH_MODULE(FeedForward);

/// What runs through the layers: x (N, E) and, with pre-norm, what the last branch will add to it.
struct ResidualStream {
  at::Tensor x;
  at::Tensor branch;  // undefined: nothing
};

/// x + dropout(branch(norm(x))), or norm(x + dropout(branch(x))) when the norm comes after. Adding
/// a branch and the norm that follows it are one pass, so that with pre-norm the sum is made by the
/// norm of the next branch.
class ResidualImpl : public torch::nn::LayerNormImpl {
 public:
  explicit ResidualImpl(const config::ModelConfig& config);
  template <typename Branch>
  void apply(ResidualStream& stream, DropoutStreams& streams, const Branch& branch) {
    if (norm_ == config::NormPlacement::kPre) {
      stream.branch = branch(add_and_norm(stream, streams));
    } else {
      stream.branch = branch(stream.x);
      stream.x = add_and_norm(stream, streams);
      stream.branch.reset();
    }
  }
  /// Adds what the last branch left to x; returns the norm of the sum.
  at::Tensor add_and_norm(ResidualStream& stream, DropoutStreams& streams);

 private:
  config::NormPlacement norm_;
  double dropout_;
};
TORCH_MODULE(Residual);

class EncoderLayerImpl : public torch::nn::Module {
 public:
  EncoderLayerImpl(const config::ModelConfig& config, int64_t layer);
  /// The stream is of packed tokens; `sequences` names the sentences.
  void forward(ResidualStream& stream, const nn::PackedSequences& sequences,
               DropoutStreams& streams);

  void train_in_bfloat16(bool yes);

  nn::MultiHeadAttention self_attention{nullptr};

 private:
  FeedForward feed_forward_{nullptr};
  Residual self_attention_norm_{nullptr}, feed_forward_norm_{nullptr};
};
TORCH_MODULE(EncoderLayer);

class DecoderLayerImpl : public torch::nn::Module {
 public:
  DecoderLayerImpl(const config::ModelConfig& config, int64_t layer);
  /// The stream is of the target's N_t tokens, memory (N_s, E), both packed.
  void forward(ResidualStream& stream, const at::Tensor& memory, const nn::PackedSequences& target,
               const nn::PackedSequences& cross, DropoutStreams& streams);
  void train_in_bfloat16(bool yes);

  nn::MultiHeadAttention self_attention{nullptr}, cross_attention{nullptr};

 private:
  FeedForward feed_forward_{nullptr};
  Residual self_attention_norm_{nullptr}, cross_attention_norm_{nullptr},
      feed_forward_norm_{nullptr};
};
TORCH_MODULE(DecoderLayer);

}  // namespace headwise::model
