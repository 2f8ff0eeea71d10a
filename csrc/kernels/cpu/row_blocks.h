// Ops that go over rows of tokens once: the rows cut into items, and the sums down the columns that
// these leave. Blocks do not depend on threads, and their sums are added in order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "csrc/kernels/cpu/round.h"

namespace headwise::kernels::cpu {

/// Rows begin … end - 1 belong to one item.
struct RowBlock {
  int64_t begin, end;
};

constexpr int64_t kBlockRows = 32;

inline int64_t row_blocks(int64_t rows) { return divide_up(rows, kBlockRows); }
inline RowBlock row_block(int64_t item, int64_t rows) {
  return {item * kBlockRows, std::min((item + 1) * kBlockRows, rows)};
}

/// Random numbers that dropout of a row of so many columns draws.
inline int64_t row_bits(int64_t width) { return divide_up(width, 64) * 64; }

/// to[i] = sum over blocks of from[block * stride + i]
template <typename C>
void add_blocks(const C* from, int64_t blocks, int64_t stride, int64_t width, C* to) {
  std::fill_n(to, width, C{0});
  for (int64_t block = 0; block < blocks; ++block, from += stride) {
    for (int64_t i = 0; i < width; ++i) to[i] += from[i];
  }
}

}  // namespace headwise::kernels::cpu
