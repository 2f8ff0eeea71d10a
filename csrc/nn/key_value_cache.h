// Keys and values of earlier decoding steps. Decoding only: no gradient flows through a cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace headwise::nn {

/// Keys and values of earlier steps, (rows, G, capacity, D); allocated once, appended in place.
/// `beam_index` (R, capacity) int32 names for each live row the cache row that holds each position,
/// so reordering beams copies 4 bytes a position and never keys or values.
class KeyValueCache {
 public:
  KeyValueCache() = default;
  /// All `rows` are live at first. @throws c10::Error for sizes below 1.
  KeyValueCache(int64_t rows, int64_t kv_heads, int64_t capacity, int64_t head_dim,
                const at::TensorOptions& options);
  /// Live row r continues row parents[r] (int64, (R)); R never grows beyond the first `rows`.
  void reorder(const at::Tensor& parents);
  /// Appends (R, G, T, D) keys and values at the current length.
  /// @throws c10::Error before writing anything if capacity would be exceeded.
  void append(const at::Tensor& key, const at::Tensor& value);
  int64_t length() const { return length_; }
  int64_t capacity() const;
  int64_t live_rows() const;
  int64_t bytes() const;
  const at::Tensor& keys() const { return keys_; }
  const at::Tensor& values() const { return values_; }
  const at::Tensor& beam_index() const { return beam_index_; }

 private:
  at::Tensor keys_, values_, beam_index_;
  int64_t length_ = 0;
};

/// Keys and values of the source sentences, once per sentence however many beams read them.
struct CrossCache {
  at::Tensor keys, values;  // (B, G, T_k, D), zeros past a sentence's length
  at::Tensor lengths;       // (B) int32
  int64_t bytes() const;
};

}  // namespace headwise::nn
