// The memory that blocks of rows, their attention and the choice of tokens take.
#pragma once

#include <algorithm>

#include "csrc/kernels/cpu/arena.h"
#include "csrc/kernels/cpu/round.h"
#include "csrc/kernels/transformer/pack.h"
#include "csrc/kernels/transformer/params.h"

namespace headwise::kernels::cpu {

/// Whole 64 bytes behind a padded row, which begin with the 1 that meets a bias.
template <typename C>
constexpr int64_t kRoomForOne = 64 / sizeof(C);

template <typename C>
int64_t query_width(const PackedAttention<C>& attention) {
  return attention.heads * padded<C>(attention.head_width);
}
template <typename C>
int64_t key_width(const PackedAttention<C>& attention) {
  return attention.kv_heads * padded<C>(attention.head_width);
}

/// Rows that meet the keys of a sentence together, at most.
constexpr int64_t kMostShared = 12;

/// Rows of one block.
template <typename C>
struct BlockScratch {
  int64_t stride, heads_stride, inner_stride;
  C *x, *y, *queries, *heads, *inner;

  BlockScratch(const PackedStack<C>& stack, int64_t rows, Arena& arena)
      : stride(padded<C>(stack.width) + kRoomForOne<C>),
        heads_stride(kRoomForOne<C>),
        inner_stride(padded<C>(stack.feed_forward) + kRoomForOne<C>) {
    for (int64_t i = 0; i < stack.layer_count; ++i) {
      for (const PackedAttention<C>* a : {&stack.layers[i].self, &stack.layers[i].cross}) {
        heads_stride = std::max(heads_stride, query_width(*a) + kRoomForOne<C>);
      }
    }
    x = arena.take<C>(rows * stride);
    y = arena.take<C>(rows * stride);
    queries = arena.take<C>(rows * heads_stride);
    heads = arena.take<C>(rows * heads_stride);
    inner = arena.take<C>(rows * inner_stride);
  }
};

/// About how many multiplications one row takes in a stack.
template <typename C>
int64_t row_cost(const PackedStack<C>& stack) {
  int64_t cost = 0;
  for (int64_t i = 0; i < stack.layer_count; ++i) {
    const PackedLayer<C>& layer = stack.layers[i];
    for (const PackedMatrix<C>* m :
         {&layer.self.query, &layer.self.key, &layer.self.value, &layer.self.output,
          &layer.cross.query, &layer.cross.output, &layer.in, &layer.out}) {
      cost += m->depth * m->width;
    }
  }
  return cost;
}

/// The largest width(layer).
template <typename C, typename Width>
int64_t widest(const PackedLayer<C>* layers, int64_t count, const Width& width) {
  int64_t most = 0;
  for (int64_t i = 0; i < count; ++i) most = std::max(most, width(layers[i]));
  return most;
}

}  // namespace headwise::kernels::cpu
