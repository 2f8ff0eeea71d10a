#include "csrc/kernels/attention/cpu/vector_ops.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "csrc/kernels/attention/cpu/vector_ops.cpp"
#include <hwy/foreach_target.h>
// Highway's headers must follow foreach_target.h.
#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// One dot product; four of them share the loads of x. `lanes` is the part of the width that fills
// vectors.
template <int kRows, typename T>
HWY_INLINE void dot_block(const T* x, const T* const* rows, int64_t width, T* out) {
  const hn::ScalableTag<T> d;
  const int64_t step = hn::Lanes(d);
  hn::Vec<decltype(d)> sum[kRows];
  for (int r = 0; r < kRows; ++r) sum[r] = hn::Zero(d);
  int64_t i = 0;
  for (; i + step <= width; i += step) {
    const auto xi = hn::LoadU(d, x + i);
    for (int r = 0; r < kRows; ++r) sum[r] = hn::MulAdd(xi, hn::LoadU(d, rows[r] + i), sum[r]);
  }
  for (int r = 0; r < kRows; ++r) {
    T total = hn::GetLane(hn::SumOfLanes(d, sum[r]));
    for (int64_t k = i; k < width; ++k) total += x[k] * rows[r][k];
    out[r] = total;
  }
}

template <typename T>
HWY_INLINE void dot_rows_any(const T* x, const T* const* rows, int64_t count, int64_t width,
                             T* out) {
  int64_t j = 0;
  for (; j + 4 <= count; j += 4) dot_block<4>(x, rows + j, width, out + j);
  for (; j < count; ++j) dot_block<1>(x, rows + j, width, out + j);
}

// Columns d … d + kVectors * lanes of the weighted sum, held in registers over all rows.
template <int kVectors, typename T>
HWY_INLINE void sum_block(const T* weights, const T* const* rows, int64_t count, int64_t column,
                          T* out) {
  const hn::ScalableTag<T> d;
  const int64_t step = hn::Lanes(d);
  hn::Vec<decltype(d)> sum[kVectors];
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
  for (int64_t j = 0; j < count; ++j) {
    const auto weight = hn::Set(d, weights[j]);
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = hn::MulAdd(weight, hn::LoadU(d, rows[j] + column + v * step), sum[v]);
    }
  }
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, out + column + v * step);
}

template <typename T>
HWY_INLINE void sum_rows_any(const T* weights, const T* const* rows, int64_t count, int64_t width,
                             T* out) {
  const int64_t step = hn::Lanes(hn::ScalableTag<T>());
  int64_t column = 0;
  for (; column + 4 * step <= width; column += 4 * step) {
    sum_block<4>(weights, rows, count, column, out);
  }
  for (; column + step <= width; column += step) sum_block<1>(weights, rows, count, column, out);
  for (; column < width; ++column) {
    T sum = 0;
    for (int64_t j = 0; j < count; ++j) sum += weights[j] * rows[j][column];
    out[column] = sum;
  }
}

template <typename T>
HWY_INLINE void add_outer_any(const T* weights, const T* x, int64_t count, int64_t width,
                              const int64_t* index, T* rows, int64_t stride) {
  const hn::ScalableTag<T> d;
  const int64_t step = hn::Lanes(d);
  for (int64_t j = 0; j < count; ++j) {
    T* row = rows + index[j] * stride;
    const auto weight = hn::Set(d, weights[j]);
    int64_t i = 0;
    for (; i + step <= width; i += step) {
      hn::StoreU(hn::MulAdd(weight, hn::LoadU(d, x + i), hn::LoadU(d, row + i)), d, row + i);
    }
    for (; i < width; ++i) row[i] += weights[j] * x[i];
  }
}

// Highway's Exp turns NaN into 0, which would hide it.
template <class D, class V = hn::Vec<D>>
HWY_INLINE V exp_or_nan(D d, V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(d, x));
}

template <typename T>
HWY_INLINE T exp_minus_any(T* x, int64_t count, T shift) {
  const hn::ScalableTag<T> d;
  const hn::CappedTag<T, 1> one;
  const int64_t step = hn::Lanes(d);
  auto sum = hn::Zero(d);
  int64_t j = 0;
  for (; j + step <= count; j += step) {
    const auto e = exp_or_nan(d, hn::Sub(hn::LoadU(d, x + j), hn::Set(d, shift)));
    hn::StoreU(e, d, x + j);
    sum = hn::Add(sum, e);
  }
  T total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; j < count; ++j) {
    x[j] = hn::GetLane(exp_or_nan(one, hn::Set(one, x[j] - shift)));
    total += x[j];
  }
  return total;
}

// HWY_EXPORT takes plain functions, so each is spelt out for float and double.
void dot_rows_f32(const float* x, const float* const* rows, int64_t n, int64_t w, float* out) {
  dot_rows_any(x, rows, n, w, out);
}
void dot_rows_f64(const double* x, const double* const* rows, int64_t n, int64_t w, double* out) {
  dot_rows_any(x, rows, n, w, out);
}
void sum_rows_f32(const float* a, const float* const* rows, int64_t n, int64_t w, float* out) {
  sum_rows_any(a, rows, n, w, out);
}
void sum_rows_f64(const double* a, const double* const* rows, int64_t n, int64_t w, double* out) {
  sum_rows_any(a, rows, n, w, out);
}
void add_outer_f32(const float* a, const float* x, int64_t n, int64_t w, const int64_t* index,
                   float* rows, int64_t stride) {
  add_outer_any(a, x, n, w, index, rows, stride);
}
void add_outer_f64(const double* a, const double* x, int64_t n, int64_t w, const int64_t* index,
                   double* rows, int64_t stride) {
  add_outer_any(a, x, n, w, index, rows, stride);
}
float exp_minus_f32(float* x, int64_t n, float shift) { return exp_minus_any(x, n, shift); }
double exp_minus_f64(double* x, int64_t n, double shift) { return exp_minus_any(x, n, shift); }

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise::kernels::cpu {

HWY_EXPORT(dot_rows_f32);
HWY_EXPORT(dot_rows_f64);
HWY_EXPORT(sum_rows_f32);
HWY_EXPORT(sum_rows_f64);
HWY_EXPORT(add_outer_f32);
HWY_EXPORT(add_outer_f64);
HWY_EXPORT(exp_minus_f32);
HWY_EXPORT(exp_minus_f64);
HWY_EXPORT(target_name);

template <>
void dot_rows(const float* x, const float* const* rows, int64_t n, int64_t width, float* out) {
  HWY_DYNAMIC_DISPATCH(dot_rows_f32)(x, rows, n, width, out);
}
template <>
void dot_rows(const double* x, const double* const* rows, int64_t n, int64_t width, double* out) {
  HWY_DYNAMIC_DISPATCH(dot_rows_f64)(x, rows, n, width, out);
}
template <>
void sum_rows(const float* a, const float* const* rows, int64_t n, int64_t width, float* out) {
  HWY_DYNAMIC_DISPATCH(sum_rows_f32)(a, rows, n, width, out);
}
template <>
void sum_rows(const double* a, const double* const* rows, int64_t n, int64_t width, double* out) {
  HWY_DYNAMIC_DISPATCH(sum_rows_f64)(a, rows, n, width, out);
}
template <>
void add_outer(const float* a, const float* x, int64_t n, int64_t width, const int64_t* index,
               float* rows, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(add_outer_f32)(a, x, n, width, index, rows, stride);
}
template <>
void add_outer(const double* a, const double* x, int64_t n, int64_t width, const int64_t* index,
               double* rows, int64_t stride) {
  HWY_DYNAMIC_DISPATCH(add_outer_f64)(a, x, n, width, index, rows, stride);
}
template <>
float exp_minus(float* x, int64_t n, float shift) {
  return HWY_DYNAMIC_DISPATCH(exp_minus_f32)(x, n, shift);
}
template <>
double exp_minus(double* x, int64_t n, double shift) {
  return HWY_DYNAMIC_DISPATCH(exp_minus_f64)(x, n, shift);
}

const char* instruction_set() { return HWY_DYNAMIC_DISPATCH(target_name)(); }

}  // namespace headwise::kernels::cpu
#endif  // HWY_ONCE
