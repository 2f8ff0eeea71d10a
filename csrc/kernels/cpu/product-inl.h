// The one matrix product behind every step: C (+)= A B with A broadcast from memory and B loaded as
// vectors, blocks of C in registers. Factors are float, double, or pairs of BFloat16 (pairs-inl.h).
#if defined(HEADWISE_PRODUCT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_PRODUCT_INL_H
#undef HEADWISE_PRODUCT_INL_H
#else
#define HEADWISE_PRODUCT_INL_H
#endif

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "csrc/kernels/cpu/pairs-inl.h"
#include "csrc/kernels/cpu/round.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// A block of C is as many vectors wide as this or narrower.
#if HWY_TARGET <= HWY_AVX3
constexpr int kBlockVectors = 4;
#else
constexpr int kBlockVectors = 3;
#endif

// Rows of a block: as many accumulators as leave registers for one row of B and one broadcast
// number. 32 registers with AVX-512, 16 before.
constexpr int most_rows(int vectors) {
  constexpr int kRows[] = {0, HWY_TARGET <= HWY_AVX3 ? 16 : 12, HWY_TARGET <= HWY_AVX3 ? 12 : 6,
                           HWY_TARGET <= HWY_AVX3 ? 8 : 4, 6};
  return kRows[vectors];
}

// The columns of a product are cut into panels; this is the width of the next where `left` are
// left, in whole vectors.
template <typename C>
HWY_INLINE int64_t panel_width(int64_t left) {
  const int64_t step = lanes<C>(), vectors = divide_up(left, step);
#if HWY_TARGET <= HWY_AVX3
  // A last vector that is half empty is a panel of its own: processors that compute these vectors
  // in two halves then skip one.
  const int64_t half = vectors > 1 && left - (vectors - 1) * step <= step / 2 ? 1 : 0;
  return std::min<int64_t>(kBlockVectors, vectors - half) * step;
#else
  // Two vectors and six rows load less than three and four, but one vector alone waits.
  return std::min<int64_t>(vectors == 3 ? 3 : 2, vectors) * step;
#endif
}

// `count` rows in even shares of at most `most`: a share of one or two rows would wait for itself.
HWY_INLINE int64_t even_share(int64_t count, int64_t most) {
  return count == 0 ? 1 : divide_up(count, divide_up(count, most));
}
// How a product with B row-major is cut into blocks.
struct Blocking {
  int64_t rows, columns;  // of a block, at most; columns in whole vectors
};
// `width` in whole vectors. A few rows share one block as wide as fits them, so that B is read
// once.
template <typename C>
HWY_INLINE Blocking blocking(int64_t rows, int64_t width) {
  int64_t vectors = std::min<int64_t>(HWY_TARGET <= HWY_AVX3 ? 4 : 2, width / lanes<C>());
  if (HWY_TARGET <= HWY_AVX3 && rows <= most_rows(2)) {
    while (rows > most_rows(static_cast<int>(vectors))) --vectors;
  }
  const int64_t most = most_rows(static_cast<int>(vectors));
  return {even_share(rows, most), vectors * lanes<C>()};
}

// A(row, k) = data[row * row_stride + k * step].
template <typename F>
struct LeftFactor {
  const F* data;
  int64_t row_stride, step;
};

// Rows of B lie `stride` apart and are vectors of whole panels.
template <typename F>
struct RightFactor {
  static constexpr bool kOnlyPairsOfVectors = false;
  const F* data;
  int64_t stride;

  int64_t step() const { return stride; }  // from what one k reads to what the next one reads
  template <class D, int kVectors>
  HWY_INLINE void load(D d, const F* at, hn::Vec<D> (&row)[kVectors]) const {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) row[v] = load_factor(d, at + v * hn::Lanes(d));
  }
};

enum class Store { kWrite, kAdd };

// Memory that will be needed soon, asked for while a product is computed: `step` bytes (at most a
// cache line for each vector) with every row of B. Asking for more at once would hold up the loads
// of the product.
struct Ahead {
  const std::byte* at = nullptr;
  int64_t step = 0;
};

// Rows that follow each other in memory.
struct RowsAhead {
  const std::byte* at = nullptr;
  int64_t row_bytes = 0, rows = 0;

  // Part n of `count`, as if of as many shorter rows.
  RowsAhead part(int64_t n, int64_t count) const {
    const int64_t bytes = row_bytes / count;
    return {at + n * rows * bytes, bytes, rows};
  }
  // Rows first … first + count - 1, for a product of so many steps.
  Ahead share(int64_t first, int64_t count, int64_t steps) const {
    return {at + first * row_bytes, divide_up(count * row_bytes, steps)};
  }
};

// Into the second cache: the first has too few places for lines on their way to keep memory busy.
HWY_INLINE void ask_for(const std::byte* line) { __builtin_prefetch(line, 0, 2); }

// D is the tag of the vectors; half vectors for a block that needs no more.
template <int kRows, int kVectors, bool kAsks, class D, typename F, class Right>
HWY_NOINLINE void product_block(const LeftFactor<F>& a, const Right& b, int64_t depth, Sum<F>* c,
                                int64_t c_stride, Store store, const Ahead& ahead) {
  const D d;
  const int64_t step = hn::Lanes(d);
  hn::Vec<D> sum[kRows][kVectors];
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  const F* left = a.data;
  auto* right = b.data;
  const std::byte* soon = ahead.at;
  for (int64_t k = 0; k < depth; ++k, left += a.step, right += b.step()) {
    if constexpr (kAsks) {
      HWY_UNROLL(4)
      for (int line = 0; line < kVectors; ++line) {
        if (line * 64 < ahead.step) ask_for(soon + line * 64);
      }
      soon += ahead.step;
    }
    hn::Vec<D> row[kVectors];
    b.load(d, right, row);
    HWY_UNROLL(16)
    for (int r = 0; r < kRows; ++r) {
      const F* factor = left + r * a.row_stride;
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = multiply_add(d, factor, row[v], sum[r][v]);
    }
  }
  HWY_UNROLL(16)
  for (int r = 0; r < kRows; ++r) {
    Sum<F>* to = c + r * c_stride;
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      if (store == Store::kAdd) sum[r][v] = hn::Add(sum[r][v], hn::LoadU(d, to + v * step));
      hn::StoreU(sum[r][v], d, to + v * step);
    }
  }
}

template <int kVectors, bool kAsks, class D, int kRows = most_rows(kVectors), typename F,
          class Right>
HWY_INLINE void product_rows(int64_t rows, const LeftFactor<F>& a, const Right& b, int64_t depth,
                             Sum<F>* c, int64_t c_stride, Store store, const Ahead& ahead) {
  if constexpr (kRows > 0) {
    if (rows == kRows) {
      return product_block<kRows, kVectors, kAsks, D>(a, b, depth, c, c_stride, store, ahead);
    }
    product_rows<kVectors, kAsks, D, kRows - 1>(rows, a, b, depth, c, c_stride, store, ahead);
  }
}

// One panel: `columns` wide, counted in whole vectors, and at most most_rows() rows. Each number of
// C is one chain of fused multiply-adds over rising k, whatever the block around it.
template <bool kAsks = false, typename F, class Right = RightFactor<F>>
HWY_INLINE void product_panel(int64_t rows, int64_t columns, const LeftFactor<F>& a, const Right& b,
                              int64_t depth, Sum<F>* c, int64_t c_stride, Store store,
                              const Ahead& ahead = {}) {
  using C = Sum<F>;
  const int64_t step = lanes<C>();
  if constexpr (Right::kOnlyPairsOfVectors) {
    product_rows<2, kAsks, Tag<C>>(rows, a, b, depth, c, c_stride, store, ahead);
  } else if (columns * 2 <= step) {
    product_rows<1, kAsks, hn::Half<Tag<C>>>(rows, a, b, depth, c, c_stride, store, ahead);
  } else {
    switch (divide_up(columns, step)) {
      case 1:
        return product_rows<1, kAsks, Tag<C>>(rows, a, b, depth, c, c_stride, store, ahead);
      case 2:
        return product_rows<2, kAsks, Tag<C>>(rows, a, b, depth, c, c_stride, store, ahead);
      case 3:
        return product_rows<3, kAsks, Tag<C>>(rows, a, b, depth, c, c_stride, store, ahead);
      default:
        return product_rows<kBlockVectors, kAsks, Tag<C>>(rows, a, b, depth, c, c_stride, store,
                                                          ahead);
    }
  }
}

// rows x width numbers of C with B row-major, in panels of at most `panel` columns; width in whole
// vectors. What lies ahead is asked for in shares as wide as the panels.
template <bool kAsks = false, typename F, class Right = RightFactor<F>>
HWY_INLINE void product(int64_t rows, int64_t width, int64_t panel, const LeftFactor<F>& a,
                        const Right& b, int64_t depth, Sum<F>* c, int64_t c_stride, Store store,
                        Ahead ahead = {}) {
  for (int64_t column = 0; column < width; column += panel) {
    const int64_t columns = std::min(panel, width - column);
    const Ahead own{ahead.at, ahead.step * columns / width};
    product_panel<kAsks>(rows, columns, a, Right{b.data + column, b.stride}, depth, c + column,
                         c_stride, store, own);
    ahead.at += depth * own.step;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_PRODUCT_INL_H
