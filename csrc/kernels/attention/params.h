// What an attention kernel sees: pointers, strides in elements, sizes and flags. Nothing here owns
// memory. Glossary: B sequences, T_q/T_k rows, H query heads, G key/value heads, D width, D_v value
// width.
#pragma once

#include <cstdint>

#include "csrc/kernels/attention/mask.h"
#include "csrc/kernels/dropout.h"
#include "csrc/kernels/element.h"

namespace headwise::kernels {

/// A (B, head, row, column) tensor. A packed tensor (N, head, column) has batch = 0, and its rows
/// are counted from the start of the whole tensor. Stride 0 = broadcast.
template <typename T>
struct View {
  T* data = nullptr;
  int64_t batch = 0, head = 0, row = 0, column = 0;  // strides

  HEADWISE_HOST_DEVICE T* at(int64_t b, int64_t h, int64_t i) const {
    return data + b * batch + h * head + i * row;
  }
  HEADWISE_HOST_DEVICE T& at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return at(b, h, i)[j * column];
  }
};

/// Where the rows of one sequence lie and how many of them exist.
struct Span {
  int64_t first = 0;   // row of the view at which the sequence begins
  int64_t rows = 0;    // rows in memory
  int64_t length = 0;  // rows that exist, <= rows
};

struct Sequences {
  int64_t count = 0;                       // B
  int64_t query_rows = 0, key_rows = 0;    // T_q, T_k; packed: those of the longest sequence
  const int64_t* query_starts = nullptr;   // (B + 1), packed form only
  const int64_t* key_starts = nullptr;     // (B + 1), packed form only
  const int64_t* query_lengths = nullptr;  // (B) or null = all rows exist
  const int64_t* key_lengths = nullptr;    // (B) or null

  HEADWISE_HOST_DEVICE Span query(int64_t b) const {
    return span(b, query_starts, query_lengths, query_rows);
  }
  HEADWISE_HOST_DEVICE Span key(int64_t b) const {
    return span(b, key_starts, key_lengths, key_rows);
  }

 private:
  HEADWISE_HOST_DEVICE static Span span(int64_t b, const int64_t* starts, const int64_t* lengths,
                                        int64_t rows) {
    if (starts != nullptr) return {starts[b], starts[b + 1] - starts[b], starts[b + 1] - starts[b]};
    return {0, rows, lengths != nullptr ? lengths[b] : rows};
  }
};

/// Boolean mask (B, H, T_q, T_k), stride 0 where broadcast; positions count from the sequence's
/// start.
struct ElementMask {
  View<const bool> view;     // null data = no mask
  bool hidden_value = true;  // the entry that hides: true for `hide`, false for `keep`

  HEADWISE_HOST_DEVICE bool hides(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return view.at(b, h, i, j) == hidden_value;
  }
};

/// Additive bias (B, H, T_q, T_k), stride 0 where broadcast; float, or the dtype of the inputs.
struct Bias {
  const void* data = nullptr;
  bool is_float = true;
  int64_t batch = 0, head = 0, row = 0, column = 0;  // strides

  template <typename T>
  HEADWISE_HOST_DEVICE Compute<T> at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t index = b * batch + h * head + i * row + j * column;
    if (is_float) return static_cast<const float*>(data)[index];
    return to_compute(static_cast<const T*>(data)[index]);
  }
};

/// Cache row that holds position j of sequence b; null data = row b.
struct BeamIndex {
  const int32_t* data = nullptr;    // (B, T_k)
  int64_t batch = 0, position = 0;  // strides; position 0 = one row for the whole sequence

  HEADWISE_HOST_DEVICE int64_t row(int64_t b, int64_t j) const {
    return data == nullptr ? b : data[b * batch + j * position];
  }
};

/// What decides the weights, in forward and backward alike.
template <typename T>
struct AttentionInputs {
  int64_t heads = 0, kv_heads = 0;     // H, G
  int64_t width = 0, value_width = 0;  // D, D_v
  Sequences sequences;
  View<const T> query;   // (B, H, T_q, D)
  View<const T> key;     // (B, G, T_k, D); decode: (rows, G, capacity, D)
  View<const T> value;   // (B, G, T_k, D_v); null when only weights are asked for
  BeamIndex beam_index;  // decode only
  MaskRule rule;
  ElementMask mask;
  Bias bias;
  double scale = 1.0;
  Dropout dropout;

  HEADWISE_HOST_DEVICE int64_t group_of(int64_t h) const { return h / (heads / kv_heads); }
};

/// Results have column stride 1. The log-sum-exp is float, or double for double.
template <typename T>
struct ForwardParams : AttentionInputs<T> {
  View<T> output;        // (B, H, T_q, D_v)
  View<Compute<T>> lse;  // (B, H, T_q)
};

template <typename T>
struct BackwardParams : AttentionInputs<T> {
  View<const T> output;                 // (B, H, T_q, D_v), as forward gave it
  View<const Compute<T>> lse;           // (B, H, T_q), likewise
  View<const T> output_gradient;        // (B, H, T_q, D_v), any strides
  View<const Compute<T>> lse_gradient;  // (B, H, T_q), any strides; null = zero
  View<T> query_gradient;               // (B, H, T_q, D), written
  View<T> key_gradient;                 // (B, G, T_k, D), written
  View<T> value_gradient;               // (B, G, T_k, D_v), written
  View<Compute<T>> bias_gradient;       // as the bias, stride 0 where it broadcasts; zero on entry;
                                        // null = not wanted
};

template <typename T>
struct WeightsParams : AttentionInputs<T> {
  View<const Compute<T>> lse;  // (B, H, T_q)
  View<T> weights;             // (B, H, T_q, T_k), zero on entry
};

template <typename T>
struct StatisticsParams : AttentionInputs<T> {
  int64_t value_heads = 0;           // G, or H where every head has values of its own
  View<const Compute<T>> lse;        // (B, H, T_q)
  Compute<T>* statistics = nullptr;  // (B, H, kStatisticsColumns) contiguous, written
};

}  // namespace headwise::kernels
