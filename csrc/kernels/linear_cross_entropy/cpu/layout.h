// The work cut into phases and items, and what lies in the workspace.
//
// Rows go in chunks. In a chunk's first phase an item owns some rows: it walks over all classes,
// leaves exp(score - largest so far) in the workspace and has the rows' losses and gradients at the
// end. In the second an item owns some classes and adds the chunk to their gradients. So every
// number has one owner and every sum one order, whatever the threads do.
#pragma once

#include <algorithm>

#include "csrc/kernels/cpu/arena.h"
#include "csrc/kernels/cpu/pairs.h"
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

// F: factors of the products, C or pairs of BFloat16; C: what they are summed in.
template <typename F, typename C = Sum<F>>
struct LossWorkspace {
  F* transposed;    // the weights, in panels of two vectors
  F* weights;       // (panels, kPanel / 2, E): pairs of rows of the weights; numbers: none
  F* exponentials;  // (panels, chunk / kNumbers, kPanel): exp(score - reference)
  C* panel_sums;    // (panels, E)
  C* reference;     // (tiles, chunk)
  C* largest;       // (chunk) of all scores of a row
  C* factor;        // (chunk) row weight / sum of exponentials
  size_t bytes;

  LossWorkspace(const LossLayout<C>& layout, void* memory) {
    Arena arena(memory);
    constexpr int64_t kPanel = LossLayout<C>::kPanel;
    const int64_t weight_factors = layout.panels * kPanel * layout.width / kNumbers<F>;
    transposed = arena.take<F>(weight_factors);
    weights = arena.take<F>(kIsPair<F> && layout.differentiates ? weight_factors : 0);
    exponentials = arena.take<F>(layout.panels * layout.chunk / kNumbers<F> * kPanel);
    panel_sums = arena.take<C>(layout.panels * layout.width);
    reference = arena.take<C>(layout.tiles * layout.chunk);
    largest = arena.take<C>(layout.chunk);
    factor = arena.take<C>(layout.chunk);
    bytes = arena.bytes();
  }
};

template <typename F, typename C = Sum<F>>
struct LossScratch {
  C* mean;         // (E) of all weights
  C* sums;         // (kRows, E) gradients of the hidden rows, not yet divided
  F* packed;       // (chunk, E) hidden rows times factors, in panels
  C* row_factors;  // (chunk)
  const C** rows;  // (kPanel)
  // For pairs alone:
  F* row_pairs;   // (kPanel, E / 2): rows of the weights, or hidden rows
  C* tile;        // (kTile / kPanel, kRows, kPanel): scores, then exponentials
  F* tile_pairs;  // (kTile / kPanel, kRows, kPanel / 2)
  size_t bytes;

  LossScratch(const LossLayout<C>& layout, void* memory) {
    using Layout = LossLayout<C>;
    Arena arena(memory);
    mean = arena.take<C>(layout.width);
    sums = arena.take<C>(Layout::kRows * layout.width);
    packed = arena.take<F>(layout.differentiates ? layout.chunk * layout.width / kNumbers<F> : 0);
    row_factors = arena.take<C>(layout.chunk);
    rows = arena.take<const C*>(Layout::kPanel);
    row_pairs = arena.take<F>(kIsPair<F> ? Layout::kPanel * layout.width / 2 : 0);
    tile = arena.take<C>(kIsPair<F> ? Layout::kRows * Layout::kTile : 0);
    tile_pairs = arena.take<F>(kIsPair<F> ? Layout::kRows * Layout::kTile / 2 : 0);
    bytes = arena.bytes();
  }
};

}  // namespace headwise::kernels::cpu
