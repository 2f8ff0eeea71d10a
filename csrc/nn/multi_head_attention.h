// torch::nn::MultiHeadAttention on the fused op: what a C++ user of the op takes.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/cloneable.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/pimpl.h>

#include <array>
#include <cstdint>
#include <optional>

#include "csrc/nn/key_value_cache.h"
#include "csrc/nn/options.h"
#include "csrc/nn/rotary.h"

namespace headwise::nn {

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

/// What may be seen inside packed sequences, and which weights dropout drops.
struct PackedRules {
  bool causal = false;
  std::optional<at::Tensor> hide = {};  // bool, True = hidden; (max T_q, max T_k) or 4-D
                                        // broadcastable; indexes inside a sequence
  std::optional<at::Tensor> seed =
      {};              // 0-dim int64; without one torch's default generator gives it
  int64_t offset = 0;  // another stream of the same seed
};

/// For experiments: per-head changes between softmax and W_O.
struct HeadIntervention {
  std::optional<at::Tensor> query_factor;  // (H): multiplies queries; 0 gives uniform attention
  std::optional<at::Tensor> gate;          // (H): multiplies head outputs before W_O
  std::optional<at::Tensor> replacement;   // (H, D), needs gate: head outputs become
                                           // gate * output + (1 - gate) * replacement
};

struct AttentionOutput {
  at::Tensor output;   // (B, T_q, E)
  at::Tensor weights;  // (B, H, T_q, T_k) when asked for, else undefined; dropout excluded
};

/// Multi-head attention with grouped key/value heads (Vaswani et al. 2017; Ainslie et al. 2023).
///
/// Parameters q_proj, k_proj, v_proj, out_proj: weight (out, in) and bias (out) as
/// torch::nn::Linear. Every method throws c10::Error, naming both numbers, for inputs of another
/// shape than it states.
class MultiHeadAttentionImpl : public torch::nn::Cloneable<MultiHeadAttentionImpl> {
 public:
  /// @throws c10::Error naming the numbers of every impossible combination.
  explicit MultiHeadAttentionImpl(const MultiHeadAttentionOptions& options);
  void reset() override;
  /// Weights Xavier-uniform, biases zero.
  void reset_parameters();

  /// query (B, T_q, E), key (B, T_k, kdim), value (B, T_k, vdim). Self-attention: pass query
  /// thrice. Asking for weights never changes the output.
  AttentionOutput forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const AttentionMasks& masks = {}, bool need_weights = false);

  /// The same on packed tokens: query (N_q, E), key (N_k, kdim), value (N_k, vdim) give (N_q, E).
  at::Tensor forward_packed(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            const PackedSequences& sequences, const PackedRules& rules = {});

  /// Per-head weights of a packed batch, (B, H, max T_q, max T_k), zero outside a sentence.
  at::Tensor attention_weights_packed(const at::Tensor& query, const at::Tensor& key,
                                      const PackedSequences& sequences,
                                      const PackedRules& rules = {});

  /// Causal self-attention of T >= 1 new tokens per live row, query (R, T, E), over everything in
  /// `cache`, to which their keys and values are appended. No gradient: wants torch::NoGradGuard.
  at::Tensor forward_step(const at::Tensor& query, KeyValueCache& cache);

  /// Projects the packed source, key (N_k, kdim) and value (N_k, vdim), once for all decoding
  /// steps.
  CrossCache cross_cache(const at::Tensor& key, const at::Tensor& value,
                         const at::Tensor& key_starts, int64_t max_key);

  /// Attention of query (R, T, E) over the source sentence rows[r] (int32, (R)) of each row.
  at::Tensor forward_cross_step(const at::Tensor& query, const CrossCache& cache,
                                const at::Tensor& rows);

  MultiHeadAttentionOptions options;  // zeros of the constructor's options are filled in
  std::optional<HeadIntervention> intervention;
  /// While training, forward_packed and its gradients multiply projections as bfloat16
  /// (linear_bfloat16; float32 weights, all widths multiples of 32).
  bool trains_in_bfloat16 = false;

  torch::nn::Linear q_proj{nullptr}, k_proj{nullptr}, v_proj{nullptr}, out_proj{nullptr};

 private:
  /// How `positions`, int64, turn the heads of `tokens`, if they are to turn.
  RotaryTable turns_of(const at::Tensor& positions, const at::Tensor& tokens);
  /// (…, E) to (…, H, D), changed by the intervention, turned when rotary.
  at::Tensor project_query(const at::Tensor& query, const RotaryTable& turns);
  at::Tensor project_key(const at::Tensor& key, const RotaryTable& turns);
  at::Tensor project_value(const at::Tensor& value);
  /// What follows the product: (…, H * D) to (…, H, D), and so on.
  at::Tensor query_heads(const at::Tensor& projected, const RotaryTable& turns);
  at::Tensor key_heads(const at::Tensor& projected, const RotaryTable& turns);
  at::Tensor value_heads(const at::Tensor& projected);
  /// Checks inputs; how the tokens turn.
  RotaryTable check_packed(const at::Tensor& query, const at::Tensor& key,
                           const PackedSequences& sequences);
  /// Queries, keys and values of packed tokens before they are cut into heads.
  std::array<at::Tensor, 3> projections(const at::Tensor& query, const at::Tensor& key,
                                        const at::Tensor& value);
  /// (…, H, D) head outputs, merged without a copy and taken through W_O.
  at::Tensor project_output(const at::Tensor& heads);
  at::Tensor merge_heads(const at::Tensor& heads);
  bool in_bfloat16() const { return trains_in_bfloat16 && is_training(); }
  double active_dropout() const { return is_training() ? options.dropout : 0.0; }
};
TORCH_MODULE(MultiHeadAttention);

}  // namespace headwise::nn
