// What an item keeps in memory that rebuilds the weights of one head.
#pragma once

#include <algorithm>

#include "csrc/kernels/attention/cpu/arena.h"
#include "csrc/kernels/attention/cpu/tiles.h"

namespace headwise::kernels::cpu {

template <typename T>
struct WeightsBuffers {
  using C = Compute<T>;

  const T** rows;  // of queries or keys
  C* queries;
  C* keys;               // transposed
  C *scores, *elements;  // (kTileRows, kTileKeys)
  C* sums;               // (kTileRows)

  WeightsBuffers(Arena& arena, const AttentionInputs<T>& in) {
    const int64_t width = padded<C>(in.width);
    rows = arena.take<const T*>(std::max(kTileRows, kTileKeys));
    queries = arena.take<C>(kTileRows * width);
    keys = arena.take<C>(kTileKeys * width);
    scores = arena.take<C>(kTileRows * kTileKeys);
    sums = arena.take<C>(kTileRows);
    const bool has_elements = in.mask.view.data != nullptr || in.bias.data != nullptr;
    elements = has_elements ? arena.take<C>(kTileRows * kTileKeys) : nullptr;
  }
};

}  // namespace headwise::kernels::cpu
