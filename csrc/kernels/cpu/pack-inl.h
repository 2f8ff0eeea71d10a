// Copies of tiles in the compute type, laid out for the product: rows padded by zeros to whole
// vectors, or transposed into panels of columns.
#if defined(HEADWISE_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_PACK_INL_H
#undef HEADWISE_PACK_INL_H
#else
#define HEADWISE_PACK_INL_H
#endif

#include <algorithm>
#include <cmath>

#include "csrc/kernels/cpu/product-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// Rows of an input, wherever they lie.
template <typename T>
struct RowList {
  const T* const* rows;
  int64_t count;
  int64_t width;
  int64_t column_stride;
  int64_t row_stride;  // of rows[r] - rows[0] = r * row_stride; 0 = they lie unevenly

  RowList part(int64_t first, int64_t size) const {
    return {rows + first, size, width, column_stride, row_stride};
  }
};

// One vector of numbers that lie `stride` apart.
template <typename T>
HWY_INLINE Vec<Compute<T>> load_strided(const T* from, int64_t stride) {
  using C = Compute<T>;
  const Tag<C> d;
  if (stride == 1) return load(d, from);
  HWY_ALIGN C numbers[16];
  for (int64_t n = 0; n < lanes<C>(); ++n) numbers[n] = to_compute(from[n * stride]);
  return hn::Load(d, numbers);
}

// Whether the rows can be read where they lie instead of being copied.
template <typename T>
HWY_INLINE bool is_readable_in_place(const RowList<T>& list) {
  return std::is_same_v<T, Compute<T>> && list.column_stride == 1 && list.row_stride != 0;
}
// Many rows far apart would compete for few sets of the cache.
template <typename T>
HWY_INLINE bool is_dense(const RowList<T>& list) {
  constexpr int64_t kFar = 512 / sizeof(T);
  return list.row_stride == list.width || list.row_stride <= kFar;
}

template <typename T>
bool all_finite(const RowList<T>& list) {
  using C = Compute<T>;
  const Tag<C> d;
  const int64_t step = hn::Lanes(d);
  Vec<C> finite = hn::Zero(d);
  C rest = 0;
  for (int64_t j = 0; j < list.count; ++j) {
    int64_t i = 0;
    for (; i + step <= list.width; i += step) {
      const Vec<C> x = load(d, list.rows[j] + i);
      finite = hn::Add(finite, hn::Sub(x, x));
    }
    for (; i < list.width; ++i) rest += to_compute(list.rows[j][i]) - to_compute(list.rows[j][i]);
  }
  return rest == 0 && hn::AllFalse(d, hn::IsNaN(finite));
}

// Copies one row and pads it with zeros to `padded` numbers. Adds x - x of every vector to
// `finite`: NaN from then on if a number was not finite.
template <typename T>
HWY_INLINE void pack_row(const T* from, int64_t column_stride, int64_t width, int64_t padded,
                         Compute<T>* to, Vec<Compute<T>>& finite) {
  using C = Compute<T>;
  const Tag<C> d;
  const int64_t step = hn::Lanes(d);
  int64_t i = 0;
  if (column_stride == 1) {
    for (; i + step <= width; i += step) {
      const Vec<C> x = load(d, from + i);
      finite = hn::Add(finite, hn::Sub(x, x));
      hn::StoreU(x, d, to + i);
    }
  }
  const int64_t whole = i;
  for (; i < width; ++i) to[i] = to_compute(from[i * column_stride]);
  for (; i < padded; ++i) to[i] = 0;
  for (i = whole; i < padded; i += step) {
    const Vec<C> x = hn::LoadU(d, to + i);
    finite = hn::Add(finite, hn::Sub(x, x));
  }
}

// Rows of B whose numbers are not all finite. A weight of 0 must not meet them in a product.
struct UnusualRows {
  int64_t count = 0;
  int32_t* index = nullptr;
};

// Copies rows as a factor of a product. Returns whether all numbers are finite.
template <typename T>
bool pack_rows(const RowList<T>& list, int64_t padded, Compute<T>* to) {
  using C = Compute<T>;
  Vec<C> finite = hn::Zero(Tag<C>());
  for (int64_t j = 0; j < list.count; ++j) {
    pack_row(list.rows[j], list.column_stride, list.width, padded, to + j * padded, finite);
  }
  return hn::AllFalse(Tag<C>(), hn::IsNaN(finite));
}

// Sets rows that are not finite to zero and lists them.
template <typename C>
void take_out_unusual_rows(int64_t count, int64_t padded, C* rows, UnusualRows& unusual) {
  for (int64_t j = 0; j < count; ++j) {
    C* row = rows + j * padded;
    if (std::all_of(row, row + padded, [](C x) { return std::isfinite(x); })) continue;
    unusual.index[unusual.count++] = static_cast<int32_t>(j);
    std::fill_n(row, padded, C{0});
  }
}

// Rows as a factor of a product: where they lie, or a copy.
template <typename C>
struct Operand {
  const C* data;
  int64_t stride;

  const C* row(int64_t r) const { return data + r * stride; }
};

template <typename T>
HWY_INLINE Operand<Compute<T>> in_place(const RowList<T>& list) {
  if constexpr (std::is_same_v<T, Compute<T>>) return {list.rows[0], list.row_stride};
  return {nullptr, 0};
}

template <typename T>
Operand<Compute<T>> left_operand(const RowList<T>& list, Compute<T>* copy) {
  if (is_readable_in_place(list)) return in_place(list);
  const int64_t padded = round_up_to_vectors<Compute<T>>(list.width);
  pack_rows(list, padded, copy);
  return {copy, padded};
}

// Rows of whole vectors. Rows that are not finite are set to zero in the copy and listed, unless
// the caller knows that none is or that no weight of 0 will meet them.
template <typename T>
Operand<Compute<T>> right_operand(const RowList<T>& list, bool harmless, Compute<T>* copy,
                                  UnusualRows& unusual) {
  const int64_t padded = round_up_to_vectors<Compute<T>>(list.width);
  unusual.count = 0;
  if (is_readable_in_place(list) && is_dense(list) && list.width == padded &&
      (harmless || all_finite(list))) {
    return in_place(list);
  }
  if (!pack_rows(list, padded, copy) && !harmless) {
    take_out_unusual_rows(list.count, padded, copy, unusual);
  }
  return {copy, padded};
}

// What the product left out: C(row, :) += A(row, k) B(k, :) for unusual rows k that row gives a
// weight.
template <typename T>
void add_unusual_rows(const UnusualRows& unusual, const RowList<T>& list, int64_t first,
                      int64_t depth, int64_t rows, const LeftFactor<Compute<T>>& a, Compute<T>* c,
                      int64_t c_stride) {
  for (int64_t u = 0; u < unusual.count; ++u) {
    const int64_t k = unusual.index[u] - first;
    if (k < 0 || k >= depth) continue;
    const T* from = list.rows[unusual.index[u]];
    for (int64_t r = 0; r < rows; ++r) {
      const Compute<T> weight = a.data[r * a.row_stride + k * a.step];
      if (weight == 0) continue;
      for (int64_t i = 0; i < list.width; ++i) {
        c[r * c_stride + i] += weight * to_compute(from[i * list.column_stride]);
      }
    }
  }
}

// Transposes four rows of one vector each: to[i * stride + r] = from[r][i]; `rows` of them where
// a panel has no more columns (vectors of four numbers always have room for four). Returns 0, or
// NaN in some lane if a number is not finite.
HWY_INLINE void store_blocks(hn::Vec<hn::Full128<float>> x, float* to, int64_t /*stride*/) {
  hn::StoreU(x, hn::Full128<float>(), to);
}
#if HWY_TARGET != HWY_SSE4
HWY_INLINE void store_blocks(hn::Vec<hn::Full256<float>> x, float* to, int64_t stride) {
  const hn::Full128<float> d;
  hn::StoreU(hn::LowerHalf(d, x), d, to);
  hn::StoreU(hn::UpperHalf(d, x), d, to + 4 * stride);
}
#endif
#if HWY_TARGET <= HWY_AVX3
HWY_INLINE void store_blocks(hn::Vec<hn::Full512<float>> x, float* to, int64_t stride) {
  const hn::Full256<float> d;
  store_blocks(hn::LowerHalf(d, x), to, stride);
  store_blocks(hn::UpperHalf(d, x), to + 8 * stride, stride);
}
#endif
HWY_INLINE Vec<float> transpose_vectors(const float* const* from, float* to, int64_t stride,
                                        int64_t /*rows*/ = 4) {
  const Tag<float> d;
  const Vec<float> a = hn::LoadU(d, from[0]), b = hn::LoadU(d, from[1]);
  const Vec<float> c = hn::LoadU(d, from[2]), e = hn::LoadU(d, from[3]);
  const Vec<float> ac = hn::InterleaveLower(d, a, c), be = hn::InterleaveLower(d, b, e);
  const Vec<float> ac2 = hn::InterleaveUpper(d, a, c), be2 = hn::InterleaveUpper(d, b, e);
  store_blocks(hn::InterleaveLower(d, ac, be), to, stride);
  store_blocks(hn::InterleaveUpper(d, ac, be), to + stride, stride);
  store_blocks(hn::InterleaveLower(d, ac2, be2), to + 2 * stride, stride);
  store_blocks(hn::InterleaveUpper(d, ac2, be2), to + 3 * stride, stride);
  return hn::Add(hn::Add(hn::Sub(a, a), hn::Sub(b, b)), hn::Add(hn::Sub(c, c), hn::Sub(e, e)));
}
HWY_INLINE Vec<double> transpose_vectors(const double* const* from, double* to, int64_t stride,
                                         int64_t rows = 4) {
  const Tag<double> d;
  Vec<double> finite = hn::Zero(d);
  for (int64_t r = 0; r < rows; ++r) {
    const Vec<double> x = hn::LoadU(d, from[r]);
    finite = hn::Add(finite, hn::Sub(x, x));
    for (int64_t i = 0; i < lanes<double>(); ++i) to[i * stride + r] = from[r][i];
  }
  return finite;
}

// `count` rows of pairs, whole vectors, become a panel of as many columns, a multiple of four.
template <bool kInstruction>
void transpose_pairs(const Pair<kInstruction>* rows, int64_t count, int64_t pairs,
                     Pair<kInstruction>* panel) {
  for (int64_t k = 0; k < pairs; k += lanes<float>()) {
    for (int64_t c = 0; c < count; c += 4) {
      const float* from[4];
      for (int64_t r = 0; r < 4; ++r) {
        from[r] = reinterpret_cast<const float*>(rows + (c + r) * pairs + k);
      }
      transpose_vectors(from, reinterpret_cast<float*>(panel + k * count + c), count);
    }
  }
}

// The transpose in panels (panel_width): number (i, j) of the panel that begins at column p lies at
// to[p * width + i * (width of the panel) + j - p]. Columns are padded by zeros to whole vectors.
//
// Returns whether all numbers are finite.
template <typename T>
bool pack_transposed(const RowList<T>& list, Compute<T>* to) {
  using C = Compute<T>;
  constexpr int64_t kRows = 4;
  const Tag<C> d;
  const int64_t step = hn::Lanes(d);
  const bool in_place = std::is_same_v<T, C> && list.column_stride == 1;
  HWY_ALIGN C copies[kRows][16];
  HWY_ALIGN static constexpr C kNoRow[16] = {};
  Vec<C> finite = hn::Zero(d);
  for (int64_t start = 0, stride; start < list.count; start += stride) {
    stride = panel_width<C>(list.count - start);
    const int64_t end = std::min(start + stride, list.count);
    C* panel = to + start * list.width;
    if (end < start + stride) {
      for (int64_t i = 0; i < list.width; ++i) {
        hn::StoreU(hn::Zero(d), d, panel + i * stride + stride - step);
      }
    }
    // A vector of the width at a time, so that the part of the panel written to stays in the cache.
    for (int64_t i = 0; i < list.width; i += step) {
      const int64_t size = std::min(step, list.width - i);
      for (int64_t j = start; j < end; j += kRows) {
        const T* const* rows = list.rows + j;
        const int64_t count = std::min(kRows, end - j), room = std::min(kRows, start + stride - j);
        const C* from[kRows] = {kNoRow, kNoRow, kNoRow, kNoRow};
        if (in_place && size == step) {
          const auto row = [&](int64_t r) { return reinterpret_cast<const C*>(rows[r] + i); };
          from[0] = row(0);
          if (count > 1) from[1] = row(1);
          if (count > 2) from[2] = row(2);
          if (count > 3) from[3] = row(3);
        } else {
          for (int64_t r = 0; r < count; ++r) {
            const T* row = rows[r] + i * list.column_stride;
            from[r] = copies[r];
            if (list.column_stride == 1 && size == step) {
              hn::Store(load(d, row), d, copies[r]);
              continue;
            }
            hn::Store(hn::Zero(d), d, copies[r]);
            for (int64_t n = 0; n < size; ++n) {
              copies[r][n] = to_compute(row[n * list.column_stride]);
            }
          }
        }
        C* block = panel + i * stride + (j - start);
        if (size == step) {
          finite = hn::Add(finite, transpose_vectors(from, block, stride, room));
        } else {
          for (int64_t n = 0; n < size; ++n) {
            for (int64_t r = 0; r < count; ++r) block[n * stride + r] = from[r][n];
          }
          for (const C* row : from) {
            const Vec<C> x = hn::LoadU(d, row);
            finite = hn::Add(finite, hn::Sub(x, x));
          }
        }
      }
    }
  }
  return hn::AllFalse(d, hn::IsNaN(finite));
}

// to[i] = factor * from[i] (+ sum[i] unless null), rounded once to the result's type.
template <typename T>
HWY_INLINE void unpack_row(const Compute<T>* from, Compute<T> factor, int64_t width,
                           const Compute<T>* sum, T* to) {
  using C = Compute<T>;
  const Tag<C> d;
  const int64_t step = hn::Lanes(d);
  int64_t i = 0;
  for (; i + step <= width; i += step) {
    Vec<C> x = hn::Mul(hn::LoadU(d, from + i), hn::Set(d, factor));
    if (sum != nullptr) x = hn::Add(x, hn::LoadU(d, sum + i));
    store(x, d, to + i);
  }
  for (; i < width; ++i) {
    to[i] = from_compute<T>(from[i] * factor + (sum == nullptr ? C{0} : sum[i]));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_PACK_INL_H
