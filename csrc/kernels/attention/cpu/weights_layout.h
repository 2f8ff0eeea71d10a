// What an item keeps in memory that rebuilds the weights of one head.
#pragma once

#include <algorithm>

#include "csrc/kernels/attention/cpu/tiles.h"
#include "csrc/kernels/cpu/arena.h"

namespace headwise::kernels::cpu {

template <typename T>
struct WeightsBuffers {
  using C = Compute<T>;

  const T** rows;         // of queries or keys
  C* transposed_queries;  // of a tile
  C* keys;                // of a tile, if not read in place
  C *scores, *elements;   // (kTileKeys, kTileRows)
  C *lse, *sums;          // (kTileRows)

  WeightsBuffers(Arena& arena, const AttentionInputs<T>& in) {
    const int64_t width = padded<C>(in.width);
    rows = arena.take<const T*>(std::max(kTileRows, kTileKeys));
    transposed_queries = arena.take<C>(kTileRows * width);
    keys = arena.take<C>(kTileKeys * width);
    scores = arena.take<C>(kTileKeys * kTileRows);
    const int64_t has_elements = in.mask.view.data != nullptr || in.bias.data != nullptr;
    elements = arena.take<C>(has_elements * kTileKeys * kTileRows);
    lse = arena.take<C>(kTileRows);
    sums = arena.take<C>(kTileRows);
  }
};

}  // namespace headwise::kernels::cpu
