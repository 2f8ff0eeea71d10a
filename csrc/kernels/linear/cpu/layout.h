// The work cut into items, and what lies in the workspace. Factors lie in panels of 32 columns: the
// number (k, c) of pairs of a panel stands at k * 32 + c.
#pragma once

#include <algorithm>

#include "csrc/kernels/cpu/arena.h"
#include "csrc/kernels/cpu/pairs.h"
#include "csrc/kernels/cpu/round.h"
#include "csrc/kernels/linear/params.h"

namespace headwise::kernels::cpu {

constexpr int64_t kLinearPanel = kLinearWidthMultiple;
constexpr int64_t kLinearRows = 48;  // of an item; even, so that pairs of rows belong to one

/// Columns of all parts side by side.
template <typename Params>
int64_t columns_of(const Params& params) {
  int64_t columns = 0;
  for (int64_t p = 0; p < params.count; ++p) columns += params.parts[p].width;
  return columns;
}

/// Where a panel of all columns stands: a part, and its column there.
struct PartColumn {
  int64_t part, column;
};
template <typename Params>
PartColumn find_panel(const Params& params, int64_t panel) {
  int64_t part = 0, column = panel * kLinearPanel;
  for (; column >= params.parts[part].width; ++part) column -= params.parts[part].width;
  return {part, column};
}

template <typename P>
struct LinearWorkspace {
  P* weights;  // (J / 32 panels, E / 2, 32)
  size_t bytes;

  LinearWorkspace(const LinearParams& p, void* memory) {
    Arena arena(memory);
    weights = arena.take<P>(columns_of(p) * p.width / 2);
    bytes = arena.bytes();
  }
};

template <typename P>
struct LinearScratch {
  P* rows;  // (48, E / 2), or the 32 rows of a panel of weights
  size_t bytes;

  LinearScratch(const LinearParams& p, void* memory) {
    Arena arena(memory);
    rows = arena.take<P>(kLinearRows * p.width / 2);
    bytes = arena.bytes();
  }
};

template <typename P>
struct LinearGradientWorkspace {
  int64_t columns, pairs, blocks;
  P* weights;        // (E / 32 panels, J / 2, 32)
  P* gradients;      // (J / 32 panels, pairs of rows, 32)
  P* inputs;         // (E / 32 panels, pairs of rows, 32)
  float* bias_sums;  // (blocks of rows, J)
  size_t bytes;

  LinearGradientWorkspace(const LinearGradientParams& p, void* memory)
      : columns(columns_of(p)),
        pairs(divide_up(p.rows, 2)),
        blocks(divide_up(p.rows, kLinearRows)) {
    Arena arena(memory);
    weights = arena.take<P>(p.x_gradient == nullptr ? 0 : p.width * columns / 2);
    gradients = arena.take<P>(columns * pairs);
    inputs = arena.take<P>(p.width * pairs);
    bias_sums = arena.take<float>(blocks * columns);
    bytes = arena.bytes();
  }
};

template <typename P>
struct LinearGradientScratch {
  P* rows;      // (48, J / 2)
  float* none;  // a row of zeros
  size_t bytes;

  LinearGradientScratch(const LinearGradientParams& p, void* memory) {
    Arena arena(memory);
    const int64_t columns = columns_of(p);
    rows = arena.take<P>(kLinearRows * columns / 2);
    none = arena.take<float>(std::max(columns, p.width));
    bytes = arena.bytes();
  }
};

}  // namespace headwise::kernels::cpu
