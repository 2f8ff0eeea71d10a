// Copies of tiles in the compute type, laid out for the product: rows padded by zeros to whole
// vectors, or transposed into panels of columns.
#if defined(HEADWISE_ATTENTION_PACK_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_PACK_INL_H
#undef HEADWISE_ATTENTION_PACK_INL_H
#else
#define HEADWISE_ATTENTION_PACK_INL_H
#endif

#include <algorithm>
#include <cmath>

#include "csrc/kernels/attention/cpu/product-inl.h"

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
};

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

// What the product left out: C(row, :) += A(row, k) B(k, :) for unusual rows k that row gives a
// weight.
template <typename T>
void add_unusual_rows(const UnusualRows& unusual, const RowList<T>& list, int64_t first,
                      int64_t depth, int64_t rows, LeftFactor<Compute<T>> a, Compute<T>* c,
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

// Transposes a square of 16-byte rows: to[i * stride + j] = from[j][i].
HWY_INLINE void transpose_square(const float* const* from, int64_t column, float* to,
                                 int64_t stride) {
  const hn::Full128<float> d;
  const auto a = hn::LoadU(d, from[0] + column), b = hn::LoadU(d, from[1] + column);
  const auto c = hn::LoadU(d, from[2] + column), e = hn::LoadU(d, from[3] + column);
  const auto ac = hn::InterleaveLower(d, a, c), be = hn::InterleaveLower(d, b, e);
  const auto ac2 = hn::InterleaveUpper(d, a, c), be2 = hn::InterleaveUpper(d, b, e);
  hn::StoreU(hn::InterleaveLower(d, ac, be), d, to);
  hn::StoreU(hn::InterleaveUpper(d, ac, be), d, to + stride);
  hn::StoreU(hn::InterleaveLower(d, ac2, be2), d, to + 2 * stride);
  hn::StoreU(hn::InterleaveUpper(d, ac2, be2), d, to + 3 * stride);
}
HWY_INLINE void transpose_square(const double* const* from, int64_t column, double* to,
                                 int64_t stride) {
  const hn::Full128<double> d;
  const auto a = hn::LoadU(d, from[0] + column), b = hn::LoadU(d, from[1] + column);
  hn::StoreU(hn::InterleaveLower(d, a, b), d, to);
  hn::StoreU(hn::InterleaveUpper(d, a, b), d, to + stride);
}

// The transpose in panels: number (i, j) of panel p = j / panel_width lies at
// to[p * panel_width * width + i * (columns of the panel) + j % panel_width]. Columns are padded by
// zeros to whole vectors. `rows` is room for four padded rows.
template <typename T>
void pack_transposed(const RowList<T>& list, Compute<T>* to, Compute<T>* rows) {
  using C = Compute<T>;
  constexpr int64_t kSquare = 16 / sizeof(C);
  const int64_t panel = panel_width<C>(), columns = round_up_to_vectors<C>(list.count);
  const int64_t padded = round_up_to_vectors<C>(list.width);
  Vec<C> ignored = hn::Zero(Tag<C>());
  for (int64_t j = 0; j < columns; j += kSquare) {
    const C* from[kSquare];
    for (int64_t r = 0; r < kSquare; ++r) {
      C* copy = rows + r * padded;
      from[r] = copy;
      if (j + r >= list.count) {
        std::fill_n(copy, padded, C{0});
        continue;
      }
      if constexpr (std::is_same_v<T, C>) {
        if (list.column_stride == 1) {
          from[r] = list.rows[j + r];
          continue;
        }
      }
      pack_row(list.rows[j + r], list.column_stride, list.width, padded, copy, ignored);
    }
    const int64_t start = j / panel * panel, stride = std::min(panel, columns - start);
    C* block = to + start * list.width + (j - start);
    int64_t i = 0;
    for (; i + kSquare <= list.width; i += kSquare) {
      transpose_square(from, i, block + i * stride, stride);
    }
    for (; i < list.width; ++i) {
      for (int64_t r = 0; r < kSquare; ++r) block[i * stride + r] = from[r][i];
    }
  }
}

// Numbers that pack_transposed writes.
template <typename C>
HWY_INLINE int64_t transposed_size(int64_t count, int64_t width) {
  return round_up_to_vectors<C>(count) * width;
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

#endif  // HEADWISE_ATTENTION_PACK_INL_H
