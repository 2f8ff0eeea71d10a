// What forward, backward and weights share: the keys one query row sees, its scores and its dropout
// factors. Works on one sequence under one key/value head at a time; memory is O(T_k).
#pragma once

#include <cstdint>

#include "csrc/kernels/attention/cpu/arena.h"
#include "csrc/kernels/attention/params.h"

namespace headwise::kernels::cpu {

/// The visible keys of one row, in rising order. Hidden keys are not in the list, so that whatever
/// they hold (NaN, uninitialised cache) is never read into a sum.
template <typename T>
struct VisibleKeys {
  int64_t count = 0;
  const int64_t* columns = nullptr;  // position of each in the sequence
  const T* const* keys = nullptr;    // its D numbers, contiguous
  const T* const* values = nullptr;  // its D_v numbers, contiguous
};

template <typename T>
class Rows {
 public:
  /// Lays its arrays out in `arena` (which may only be counting).
  Rows(const AttentionInputs<T>& inputs, Arena& arena);

  /// Turns to sequence b and key/value head `group`.
  void load(int64_t b, int64_t group);

  const Span& query_span() const { return query_span_; }
  const Span& key_span() const { return key_span_; }

  VisibleKeys<T> visible(int64_t h, int64_t i) const;

  /// The D numbers of query row i of head h, contiguous (copied only when the tensor's are not).
  const T* query(int64_t h, int64_t i) const;

  /// scores[k] = scale * query · key + bias for each visible key; `query` as query() returned it.
  void score(int64_t h, int64_t i, const VisibleKeys<T>& keys, const T* query, T* scores) const;

  /// Draws the dropout factors of the row: 0 or 65536 / (65536 - threshold). No-op without dropout.
  void draw(int64_t h, int64_t i, const VisibleKeys<T>& keys) const;

  /// weights[k] *= the factor of key k, as drawn. No-op without dropout.
  void drop(const VisibleKeys<T>& keys, T* weights) const;

 private:
  const AttentionInputs<T>& in_;
  int64_t b_ = 0;
  Span query_span_, key_span_;
  // Every existing key: position and rows.
  int64_t* columns_;
  const T** keys_;
  const T** values_;
  // Those one row sees, where an element mask or a bias picks among them.
  int64_t* seen_columns_ = nullptr;
  const T** seen_keys_ = nullptr;
  const T** seen_values_ = nullptr;
  // Contiguous copies, where the column stride is not 1.
  T* key_copy_ = nullptr;
  T* value_copy_ = nullptr;
  T* query_copy_ = nullptr;
  T* factors_ = nullptr;  // by column
};

/// Returns row itself if its column stride is 1, else a copy in buffer.
template <typename T>
const T* contiguous_row(const T* row, int64_t column_stride, int64_t width, T* buffer) {
  if (column_stride == 1) return row;
  for (int64_t d = 0; d < width; ++d) buffer[d] = row[d * column_stride];
  return buffer;
}

}  // namespace headwise::kernels::cpu
