// Attention for C++ callers. Every function goes through the dispatcher (headwise::…), so that C++
// and Python take the same path. Glossary: B batch, T_q/T_k lengths, H query heads, G key/value
// heads, D head width, D_v value width, N_q/N_k tokens of a packed batch.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace headwise {

/// Which query row meets which key when the lengths differ: the last rows with the last keys, or
/// the first with the first. Only causal and window depend on it.
enum class Align { kEnd, kStart };

/// Everything that may hide, shift or drop a score. All hiding rules are combined by OR.
struct AttentionOptions {
  /// bool, (T_q, T_k) or 4-D broadcastable to (B, H, T_q, T_k); True = hidden. `keep` is the
  /// opposite; giving both is an error. A broadcast mask is never expanded.
  std::optional<at::Tensor> hide, keep;
  /// Added to the scaled scores; query's dtype or float32, shapes as hide; -inf hides.
  /// Differentiable.
  std::optional<at::Tensor> bias;
  /// (B) int32 or int64: rows and keys past the length do not exist. Not for the packed form.
  std::optional<at::Tensor> query_lengths, key_lengths;
  bool causal = false;
  Align align = Align::kEnd;
  /// (left, right): row i sees keys i + e - left … i + e + right, e = key length - query length for
  /// Align::kEnd, 0 for Align::kStart. -1 = unbounded.
  std::optional<std::array<int64_t, 2>> window;
  std::optional<double> scale;  // of the scores; 1/sqrt(D) when absent
  double dropout = 0.0;         // of the weights; 0 <= dropout < 1
  /// 0-dim int64: the same seed and offset drop the same weights, in every form and for every
  /// thread count. Drawn from the default generator when dropout > 0 and none is given.
  std::optional<at::Tensor> seed;
  c10::SymInt offset = 0;  // 0 <= offset < 2^32: another stream of the same seed
};

struct AttentionResult {
  at::Tensor
      output;  // (B, H, T_q, D_v) with the strides of (B, T_q, H, D_v) memory; packed (N_q, H, D_v)
  at::Tensor lse;  // (B, H, T_q); packed (N_q, H). Natural log, -inf for rows that see no key
};

/// softmax(scale * query key^T + bias) value over the visible keys; rows that see none give 0.
/// query (B, H, T_q, D), key (B, G, T_k, D), value (B, G, T_k, D_v), any strides; H % G == 0 and
/// query head h reads key/value head h / (H / G). float32, bfloat16, float16 or float64; sums are
/// float32, or float64 for float64.
/// @throws c10::Error naming the argument, what came and what is required.
AttentionResult attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const AttentionOptions& options = {});

/// The same over sequences lying end to end: query (N_q, H, D), key (N_k, G, D), value (N_k, G,
/// D_v); sequence b has the rows starts[b] … starts[b + 1] - 1. starts (B + 1) int32 or int64. hide
/// and bias are indexed (b, h, i, j) inside a sequence. max_query and max_key are hints that change
/// no result.
AttentionResult attention_packed(const at::Tensor& query, const at::Tensor& key,
                                 const at::Tensor& value, const at::Tensor& query_starts,
                                 const at::Tensor& key_starts, int64_t max_query, int64_t max_key,
                                 const AttentionOptions& options = {});

/// Masks of a decoding step, as in AttentionOptions; T_k is the capacity of the cache.
struct DecodeOptions {
  bool causal = true;  // query i sees keys j <= i + length - T_q
  std::optional<std::array<int64_t, 2>> window;
  std::optional<at::Tensor> bias, hide;
  /// int32: (B) cache row of each sequence, or (B, capacity) cache row of each position. Without it
  /// sequence b reads cache row b.
  std::optional<at::Tensor> beam_index;
  std::optional<double> scale;
};

/// Inference only. query (B, H, T_q, D); caches (rows, G, capacity, D or D_v); lengths (B) int32 or
/// int64, the new tokens included.
AttentionResult attention_decode(const at::Tensor& query, const at::Tensor& key_cache,
                                 const at::Tensor& value_cache, const at::Tensor& lengths,
                                 const DecodeOptions& options = {});

/// Writes key and value (B, G, T, D or D_v) into the first B rows of the caches
/// (rows, G, capacity, D or D_v) at positions lengths[b] … lengths[b] + T - 1; lengths (B) as they
/// are before appending, max_length their largest where the caller knows it. Inference only.
/// @throws c10::Error before anything is written if the capacity would be exceeded.
void cache_append(const at::Tensor& key_cache, const at::Tensor& value_cache, const at::Tensor& key,
                  const at::Tensor& value, const at::Tensor& lengths,
                  std::optional<int64_t> max_length = std::nullopt);

/// The weights (B, H, T_q, T_k) rebuilt from the saved log-sum-exp, dropout excluded (the dropout
/// fields of options are not read). Not differentiable.
at::Tensor attention_weights(const at::Tensor& query, const at::Tensor& key, const at::Tensor& lse,
                             const AttentionOptions& options = {});

/// Packed form: (B, H, max_query, max_key), 0 past each sequence's lengths. Here max_query and
/// max_key are the sizes of the result, at least the longest sequence.
at::Tensor attention_weights_packed(const at::Tensor& query, const at::Tensor& key,
                                    const at::Tensor& lse, const at::Tensor& query_starts,
                                    const at::Tensor& key_starts, int64_t max_query,
                                    int64_t max_key, const AttentionOptions& options = {});

/// What each head does, measured on the weights a tile at a time, so without T_q x T_k memory:
/// (B, H, columns) sums over the rows of a sequence, float32 (float64 for float64), dropout
/// excluded (the dropout fields of options are not read). statistics_names() names the columns;
/// headwise.attention_statistics of the Python package documents them. value (B, G or H, T_k, D_v);
/// only the lengths of its vectors are read, so any lengths may be given as (B, G or H, T_k, 1).
/// Not differentiable.
at::Tensor attention_statistics(const at::Tensor& query, const at::Tensor& key,
                                const at::Tensor& value, const at::Tensor& lse,
                                const AttentionOptions& options = {});

/// Packed form: (B, H, columns) too.
at::Tensor attention_statistics_packed(const at::Tensor& query, const at::Tensor& key,
                                       const at::Tensor& value, const at::Tensor& lse,
                                       const at::Tensor& query_starts, const at::Tensor& key_starts,
                                       int64_t max_query, int64_t max_key,
                                       const AttentionOptions& options = {});

/// Names of the columns of attention_statistics.
std::vector<std::string> statistics_names();

/// In words, what attention of these arguments would run, forward and backward: kernel, instruction
/// set, tiles, items, threads and memory, and which masks are active. Runs nothing.
std::string explain(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const AttentionOptions& options = {});
std::string explain_packed(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           const at::Tensor& query_starts, const at::Tensor& key_starts,
                           int64_t max_query, int64_t max_key,
                           const AttentionOptions& options = {});

}  // namespace headwise
