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
  C* keys;  // transposed
  C* copies;
  C *scores, *elements;  // (kTileRows, kTileKeys)

  WeightsBuffers(Arena& arena, const AttentionInputs<T>& in) {
    const int64_t width = padded<C>(in.width);
    rows = arena.take<const T*>(std::max(kTileRows, kTileKeys));
    queries = arena.take<C>(kTileRows * width);
    keys = arena.take<C>(kTileKeys * width);
    copies = arena.take<C>(4 * width);
    scores = arena.take<C>(kTileRows * kTileKeys);
    const bool has_elements = in.mask.view.data != nullptr || in.bias.data != nullptr;
    elements = has_elements ? arena.take<C>(kTileRows * kTileKeys) : nullptr;
  }
};

}  // namespace headwise::kernels::cpu
