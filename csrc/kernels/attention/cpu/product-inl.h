// The one matrix product behind every step: C (+)= A B with A broadcast from memory and B loaded as
// vectors, blocks of C in registers.
#if defined(HEADWISE_ATTENTION_PRODUCT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_PRODUCT_INL_H
#undef HEADWISE_ATTENTION_PRODUCT_INL_H
#else
#define HEADWISE_ATTENTION_PRODUCT_INL_H
#endif

#include <algorithm>

#include "csrc/kernels/attention/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// Rows and vectors of a block: as many accumulators as leave registers for one row of B and one
// broadcast number. 32 registers with AVX-512, 16 before.
constexpr int kBlockRows = 6;
#if HWY_TARGET <= HWY_AVX3
constexpr int kBlockVectors = 4;
#else
constexpr int kBlockVectors = 2;
#endif

template <typename C>
HWY_INLINE int64_t panel_width() {
  return kBlockVectors * lanes<C>();
}

// A(row, k) = data[row * row_stride + k * step].
template <typename C>
struct LeftFactor {
  const C* data;
  int64_t row_stride, step;
};

// Rows of B lie `stride` apart and are vectors of whole panels.
template <typename C>
struct RightFactor {
  const C* data;
  int64_t stride;
};

enum class Store { kWrite, kAdd };

template <int kRows, int kVectors, typename C>
HWY_NOINLINE void product_block(const LeftFactor<C>& a, const RightFactor<C>& b, int64_t depth,
                                C* c, int64_t c_stride, Store store) {
  const Tag<C> d;
  const int64_t step = hn::Lanes(d);
  Vec<C> sum[kRows][kVectors];
  HWY_UNROLL(6)
  for (int r = 0; r < kRows; ++r) {
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::Zero(d);
  }
  const C* left = a.data;
  const C* right = b.data;
  for (int64_t k = 0; k < depth; ++k, left += a.step, right += b.stride) {
    Vec<C> row[kVectors];
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) row[v] = hn::LoadU(d, right + v * step);
    HWY_UNROLL(6)
    for (int r = 0; r < kRows; ++r) {
      const Vec<C> factor = hn::Set(d, left[r * a.row_stride]);
      HWY_UNROLL(4)
      for (int v = 0; v < kVectors; ++v) sum[r][v] = hn::MulAdd(factor, row[v], sum[r][v]);
    }
  }
  HWY_UNROLL(6)
  for (int r = 0; r < kRows; ++r) {
    C* to = c + r * c_stride;
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      if (store == Store::kAdd) sum[r][v] = hn::Add(sum[r][v], hn::LoadU(d, to + v * step));
      hn::StoreU(sum[r][v], d, to + v * step);
    }
  }
}

template <int kVectors, typename C>
HWY_INLINE void product_rows(int64_t rows, const LeftFactor<C>& a, const RightFactor<C>& b,
                             int64_t depth, C* c, int64_t c_stride, Store store) {
  switch (rows) {
    case 1:
      return product_block<1, kVectors>(a, b, depth, c, c_stride, store);
    case 2:
      return product_block<2, kVectors>(a, b, depth, c, c_stride, store);
    case 3:
      return product_block<3, kVectors>(a, b, depth, c, c_stride, store);
    case 4:
      return product_block<4, kVectors>(a, b, depth, c, c_stride, store);
    case 5:
      return product_block<5, kVectors>(a, b, depth, c, c_stride, store);
    default:
      return product_block<6, kVectors>(a, b, depth, c, c_stride, store);
  }
}

// At most kBlockRows rows and kBlockVectors vectors. Each number of C is one chain of fused
// multiply-adds over rising k, whatever the block around it.
template <typename C>
HWY_INLINE void product_panel(int64_t rows, int64_t vectors, const LeftFactor<C>& a,
                              const RightFactor<C>& b, int64_t depth, C* c, int64_t c_stride,
                              Store store) {
  switch (vectors) {
    case 1:
      return product_rows<1>(rows, a, b, depth, c, c_stride, store);
    case 2:
      return product_rows<2>(rows, a, b, depth, c, c_stride, store);
#if HWY_TARGET <= HWY_AVX3
    case 3:
      return product_rows<3>(rows, a, b, depth, c, c_stride, store);
    default:
      return product_rows<4>(rows, a, b, depth, c, c_stride, store);
#else
    default:
      return;
#endif
  }
}

// rows x width numbers of C with B row-major; rows <= kBlockRows, width a multiple of the lanes.
template <typename C>
HWY_INLINE void product(int64_t rows, int64_t width, const LeftFactor<C>& a,
                        const RightFactor<C>& b, int64_t depth, C* c, int64_t c_stride,
                        Store store) {
  const int64_t panel = panel_width<C>(), step = lanes<C>();
  for (int64_t column = 0; column < width; column += panel) {
    const int64_t vectors = std::min(panel, width - column) / step;
    product_panel(rows, vectors, a, {b.data + column, b.stride}, depth, c + column, c_stride,
                  store);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_ATTENTION_PRODUCT_INL_H
