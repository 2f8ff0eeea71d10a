// The encoder–decoder Transformer on packed tokens. Shapes: N tokens of all sentences, E width,
// B sentences, V target pieces.
#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <mutex>
#include <vector>

#include "src/config/config.h"
#include "src/model/layers.h"

namespace headwise::model {

/// One side of a batch as tensors: tokens (N) int64, positions (N) int64, starts (B + 1) int32.
struct PackedTokens {
  at::Tensor tokens, positions, starts;
  int64_t longest = 0;
};

/// What the encoder hands to the decoder.
struct Memory {
  at::Tensor states;  // (N_s, E)
  at::Tensor starts;  // (B + 1) int32
  int64_t longest = 0;
};

class TransformerImpl : public torch::nn::Module {
 public:
  /// @throws c10::Error for impossible attention shapes (config::load has refused them before).
  TransformerImpl(const config::ModelConfig& config, int64_t source_vocabulary,
                  int64_t target_vocabulary);

  /// In training mode `streams` say what is dropped; without them torch's default generator does.
  Memory encode(const PackedTokens& source, DropoutStreams& streams);
  Memory encode(const PackedTokens& source);
  /// Hidden states (N_t, E) of the target input, ready for the output layer.
  at::Tensor decode(const PackedTokens& target, const Memory& memory, DropoutStreams& streams);
  at::Tensor decode(const PackedTokens& target, const Memory& memory);
  /// Scores (N, V) over target pieces.
  at::Tensor logits(const at::Tensor& hidden);
  /// (V, E): the target embedding when tied.
  at::Tensor output_weight() const;

  /// Whether products of training, forward and backward, take factors rounded to bfloat16. Weights,
  /// sums and gradients stay float32, and so does everything in evaluation mode. All widths must be
  /// multiples of 32.
  void train_in_bfloat16(bool yes);
  bool trains_in_bfloat16() const { return trains_in_bfloat16_; }

  const config::ModelConfig& config() const { return config_; }
  int64_t source_vocabulary() const { return source_embedding_->options.num_embeddings(); }
  int64_t target_vocabulary() const { return target_embedding_->options.num_embeddings(); }

  std::vector<EncoderLayer> encoder;
  std::vector<DecoderLayer> decoder;

 private:
  /// Embeddings (N, E) of tokens that stand at `positions`, all below `length`.
  at::Tensor embed(torch::nn::Embedding& embedding, const at::Tensor& tokens,
                   const at::Tensor& positions, int64_t length, DropoutStreams& streams);
  at::Tensor positions_up_to(int64_t length, const at::TensorOptions& options);
  void initialise();

  config::ModelConfig config_;
  bool trains_in_bfloat16_ = false;
  torch::nn::Embedding source_embedding_{nullptr}, target_embedding_{nullptr};
  Residual encoder_norm_{nullptr}, decoder_norm_{nullptr};  // pre-norm only
  torch::nn::Linear output_{nullptr};                       // untied only
  // Grows on demand; derived, so not part of a checkpoint. Threads that decode side by side share
  // it.
  std::mutex position_mutex_;
  at::Tensor position_table_;
};
TORCH_MODULE(Transformer);

}  // namespace headwise::model
