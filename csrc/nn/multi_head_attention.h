// torch::nn::MultiHeadAttention on the fused op: what a C++ user of the op takes.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <optional>

namespace headwise::nn {

struct MultiHeadAttentionOptions {
  int64_t embed_dim = 0;     // E, width of queries and outputs
  int64_t num_heads = 1;     // H
  int64_t num_kv_heads = 0;  // G; 0 = num_heads; must divide num_heads
  int64_t head_dim = 0;      // D; 0 = embed_dim / num_heads, which must then divide
  int64_t kdim = 0, vdim = 0;  // widths of key and value inputs; 0 = embed_dim
  bool bias = true;            // of W_Q, W_K, W_V and W_O
  double dropout = 0.0;        // of the attention weights, in training mode only
  bool out_proj = true;        // false: W_O is the identity, needs num_heads * head_dim == embed_dim
};

/// Which keys exist and which may be seen. All given rules are combined by OR of hiding.
struct AttentionMasks {
  std::optional<at::Tensor> hide;  // bool, True = hidden; (T_q, T_k) or 4-D broadcastable
  std::optional<at::Tensor> query_lengths, key_lengths;  // (B)
  bool causal = false;
};

/// Sequences end to end: tokens (N, E) and where each begins.
struct PackedSequences {
  at::Tensor query_starts, key_starts;  // (B + 1) int32
  int64_t max_query = 0, max_key = 0;   // hints
};

/// For experiments: per-head changes between softmax and W_O. Each is a tensor of num_heads entries.
struct HeadIntervention {
  std::optional<at::Tensor> query_factor;  // (H): multiplies queries; 0 gives uniform attention
  std::optional<at::Tensor> gate;          // (H): multiplies head outputs before W_O
  std::optional<at::Tensor> replacement;   // (H, D): takes the place of head outputs where gate is not 1:
                                           // gate * output + (1 - gate) * replacement
};

/// Keys and values of earlier steps, (rows, G, capacity, D); allocated once, appended in place.
/// `beam_index` (R, capacity) int32 names for each live row the cache row that holds each position, so
/// reordering beams copies 4 bytes a position and never keys or values.
class KeyValueCache {
 public:
  KeyValueCache() = default;
  KeyValueCache(int64_t rows, int64_t kv_heads, int64_t capacity, int64_t head_dim,
                const at::TensorOptions& options);
  /// Live row r continues row parents[r] (int64, (R)); R never grows beyond the first `rows`.
  void reorder(const at::Tensor& parents);
  /// Appends (R, G, T, D) keys and values at the current length.
  /// @throws c10::Error before writing anything if capacity would be exceeded.
  void append(const at::Tensor& key, const at::Tensor& value);
  int64_t length() const { return length_; }
  int64_t capacity() const;
  int64_t bytes() const;
  const at::Tensor& keys() const { return keys_; }
  const at::Tensor& values() const { return values_; }
  const at::Tensor& beam_index() const { return beam_index_; }

 private:
  at::Tensor keys_, values_, beam_index_;
  int64_t length_ = 0;
};

struct AttentionOutput {
  at::Tensor output;   // (B, T_q, E) or packed (N_q, E)
  at::Tensor weights;  // (B, H, T_q, T_k) when asked for, else undefined; dropout excluded
};

/// Multi-head attention with grouped key/value heads (Vaswani et al. 2017; Ainslie et al. 2023).
///
/// Parameters q_proj, k_proj, v_proj, out_proj: weight (out, in) and bias (out) as torch::nn::Linear.
class MultiHeadAttentionImpl : public torch::nn::Cloneable<MultiHeadAttentionImpl> {
 public:
  /// @throws c10::Error naming the numbers of every impossible combination.
  explicit MultiHeadAttentionImpl(const MultiHeadAttentionOptions& options);
  void reset() override;

  /// query (B, T_q, E), key (B, T_k, kdim), value (B, T_k, vdim). Self-attention: pass query thrice.
  AttentionOutput forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const AttentionMasks& masks = {}, bool need_weights = false);

  // packed, cached and pieces of these: see the implementation's owner section below.

  MultiHeadAttentionOptions options;
};

}  // namespace headwise::nn
