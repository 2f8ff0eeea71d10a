// The work cut into phases and items, and what lies in the workspace.
//
// Rows go in chunks. In a chunk's first phase an item owns some rows: it walks over all classes,
// leaves exp(score - largest so far) in the workspace and has the rows' losses and gradients at the
// end. In the second an item owns some classes and adds the chunk to their gradients. So every
// number has one owner and every sum one order, whatever the threads do.
#pragma once

#include <algorithm>

#include "csrc/kernels/cpu/arena.h"
#include "csrc/kernels/cpu/round.h"
#include "csrc/kernels/linear_cross_entropy/params.h"

namespace headwise::kernels::cpu {

template <typename C>
struct LossLayout {
  static constexpr int64_t kPanel = 64;   // classes side by side in memory
  static constexpr int64_t kTile = 512;   // classes an item turns to at a time
  static constexpr int64_t kRows = 36;    // rows of an item: shares of 12 and of 6
  static constexpr int64_t kChunk = 576;  // rows of a chunk, at most
  static constexpr int64_t kChunkBytes = int64_t{16} << 20;  // of its scores, about

  int64_t width, panels, tiles, chunk, chunks;
  bool differentiates;

  explicit LossLayout(const LinearCrossEntropyParams<C>& p)
      : width(p.width),
        panels(divide_up(p.classes, kPanel)),
        tiles(divide_up(p.classes, kTile)),
        chunk(kRows),
        differentiates(p.hidden_gradient != nullptr) {
    const int64_t row_bytes = std::max<int64_t>(1, panels) * kPanel * sizeof(C);
    const int64_t most =
        std::clamp<int64_t>(kChunkBytes / row_bytes / kRows * kRows, kRows, kChunk);
    chunk = std::min(most, divide_up(std::max<int64_t>(1, p.rows), kRows) * kRows);
    chunks = divide_up(p.rows, chunk);
  }

  int64_t phases() const { return 1 + chunks * (differentiates ? 2 : 1); }
  int64_t chunk_of(int64_t phase) const { return (phase - 1) / (differentiates ? 2 : 1); }
  bool adds_to_classes(int64_t phase) const { return differentiates && (phase - 1) % 2 == 1; }
};

template <typename C>
struct LossWorkspace {
  C* transposed;  // the weights, in panels of two vectors
  C* panel_sums;  // (panels, E)
  C* scores;      // (panels, chunk, kPanel): exp(score - reference)
  C* reference;   // (tiles, chunk)
  C* largest;     // (chunk) of all scores of a row
  C* factor;      // (chunk) row weight / sum of exponentials
  size_t bytes;

  LossWorkspace(const LossLayout<C>& layout, void* memory) {
    Arena arena(memory);
    transposed = arena.take<C>(layout.panels * LossLayout<C>::kPanel * layout.width);
    panel_sums = arena.take<C>(layout.panels * layout.width);
    scores = arena.take<C>(layout.panels * layout.chunk * LossLayout<C>::kPanel);
    reference = arena.take<C>(layout.tiles * layout.chunk);
    largest = arena.take<C>(layout.chunk);
    factor = arena.take<C>(layout.chunk);
    bytes = arena.bytes();
  }
};

template <typename C>
struct LossScratch {
  C* mean;         // (E) of all weights
  C* sums;         // (kRows, E) gradients of the hidden rows, not yet divided
  C* packed;       // (chunk, E) hidden rows times factors, in panels
  C* row_factors;  // (chunk)
  const C** rows;  // (kPanel)
  size_t bytes;

  LossScratch(const LossLayout<C>& layout, void* memory) {
    Arena arena(memory);
    mean = arena.take<C>(layout.width);
    sums = arena.take<C>(LossLayout<C>::kRows * layout.width);
    packed = arena.take<C>(layout.differentiates ? layout.chunk * layout.width : 0);
    row_factors = arena.take<C>(layout.chunk);
    rows = arena.take<const C*>(LossLayout<C>::kPanel);
    bytes = arena.bytes();
  }
};

}  // namespace headwise::kernels::cpu
