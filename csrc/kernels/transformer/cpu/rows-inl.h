// Rows of tokens between the attentions: product with packed weights, layer norm, activation,
// embedding, rotary positions.
#if defined(HEADWISE_TRANSFORMER_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_TRANSFORMER_ROWS_INL_H
#undef HEADWISE_TRANSFORMER_ROWS_INL_H
#else
#define HEADWISE_TRANSFORMER_ROWS_INL_H
#endif

#include <algorithm>
#include <cmath>

#include "csrc/kernels/cpu/product-inl.h"
#include "csrc/kernels/cpu/turn-inl.h"
#include "csrc/kernels/transformer/pack.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// Rows `stride` apart. With room for a 1 behind the padded width, where a bias is met.
template <typename C>
struct Rows {
  C* data = nullptr;
  int64_t stride = 0;

  C* operator[](int64_t r) const { return data + r * stride; }
};

// c (+)= a m. The panels of m stay in the first cache while all rows meet them.
template <typename C>
void multiply(int64_t rows, const Rows<C>& a, const PackedMatrix<C>& m, const Rows<C>& c,
              Store store) {
  for (int64_t column = 0; column < m.width; column += kPanelColumns) {
    const int64_t columns = std::min(kPanelColumns, m.width - column);
    const RightFactor<C> b{m.panels + column * m.depth, columns};
    const Blocking block = blocking<C>(rows, columns);
    for (int64_t r = 0; r < rows; r += block.rows) {
      product(std::min(block.rows, rows - r), columns, block.columns,
              LeftFactor<C>{a[r], a.stride, 1}, b, m.depth, c[r] + column, c.stride, store);
    }
  }
}

// `to` may be x. Numbers past the width come out as 0, for weight and bias are 0 there.
template <typename C>
void normalise_row(const C* x, int64_t width, const LayerNorm<C>& norm, C* to) {
  const Tag<C> d;
  const int64_t step = lanes<C>();
  Vec<C> sum = hn::Zero(d);
  for (int64_t i = 0; i < width; i += step) sum = hn::Add(sum, hn::LoadU(d, x + i));
  const Vec<C> mean = hn::Set(d, sum_of_lanes<C>(sum) / static_cast<C>(width));
  Vec<C> squares = hn::Zero(d);
  for (int64_t i = 0; i < width; i += step) {
    Vec<C> centred = hn::Sub(hn::LoadU(d, x + i), mean);
    if (i + step > width) centred = hn::IfThenElseZero(lanes_within<C>(i, 0, width), centred);
    squares = hn::MulAdd(centred, centred, squares);
  }
  const C variance = sum_of_lanes<C>(squares) / static_cast<C>(width);
  const Vec<C> inverse = hn::Set(d, 1 / std::sqrt(variance + static_cast<C>(norm.epsilon)));
  for (int64_t i = 0; i < padded<C>(width); i += step) {
    const Vec<C> x_hat = hn::Mul(hn::Sub(hn::LoadU(d, x + i), mean), inverse);
    const Vec<C> y = hn::MulAdd(x_hat, hn::LoadU(d, norm.weight + i), hn::LoadU(d, norm.bias + i));
    hn::StoreU(y, d, to + i);
  }
}

// The error function in single precision: polynomials fitted by N. Juffa, off by less than one unit
// in the last place.
HWY_INLINE Vec<float> error_function(Vec<float> a) {
  const Tag<float> d;
  const auto c = [&](float x) { return hn::Set(d, x); };
  const Vec<float> t = hn::Abs(a), s = hn::Mul(a, a);
  Vec<float> far = hn::MulAdd(c(-1.72853470e-5f), t, c(3.83197126e-4f));
  far = hn::MulAdd(far, s, hn::MulAdd(c(-3.88396438e-3f), t, c(2.42546219e-2f)));
  far = hn::MulAdd(far, t, c(-1.06777877e-1f));
  far = hn::MulAdd(far, t, c(-6.34846687e-1f));
  far = hn::MulAdd(far, t, c(-1.28717512e-1f));
  far = hn::MulAdd(far, t, hn::Neg(t));
  far = hn::CopySign(hn::Sub(c(1.0f), exp_score(far)), a);
  Vec<float> near = c(-5.96761703e-4f);
  near = hn::MulAdd(near, s, c(4.99119423e-3f));
  near = hn::MulAdd(near, s, c(-2.67681349e-2f));
  near = hn::MulAdd(near, s, c(1.12819925e-1f));
  near = hn::MulAdd(near, s, c(-3.76125336e-1f));
  near = hn::MulAdd(near, s, c(1.28379166e-1f));
  near = hn::MulAdd(near, a, a);
  return hn::IfThenElse(hn::Gt(t, c(0.927734375f)), far, near);
}
HWY_INLINE Vec<double> error_function(Vec<double> a) {
  const Tag<double> d;
  HWY_ALIGN double numbers[8];
  hn::Store(a, d, numbers);
  for (int64_t i = 0; i < lanes<double>(); ++i) numbers[i] = std::erf(numbers[i]);
  return hn::Load(d, numbers);
}

template <typename C>
void activate_row(C* x, int64_t width, ActivationKind kind) {
  const Tag<C> d;
  for (int64_t i = 0; i < width; i += lanes<C>()) {
    const Vec<C> v = hn::LoadU(d, x + i);
    if (kind == ActivationKind::kRelu) {
      // In this order NaN stays NaN on x86.
      hn::StoreU(hn::Max(hn::Zero(d), v), d, x + i);
    } else {
      const Vec<C> half = hn::Mul(v, hn::Set(d, C{0.5}));
      const Vec<C> erf = error_function(hn::Mul(v, hn::Set(d, C{0.70710678118654752440})));
      hn::StoreU(hn::MulAdd(half, erf, half), d, x + i);
    }
  }
}

template <typename C>
void embed_row(const PackedStack<C>& stack, int64_t token, const C* position, C* to) {
  const C* from = stack.embedding + token * stack.width;
  const C scale = static_cast<C>(stack.embedding_scale);
  for (int64_t i = 0; i < stack.width; ++i) {
    to[i] = from[i] * scale + (position == nullptr ? C{0} : position[i]);
  }
  std::fill(to + stack.width, to + padded<C>(stack.width), C{0});
}

// Turns every head by its position.
template <typename C>
void rotate_row(C* row, int64_t heads, int64_t width, const RotaryTable<C>& table,
                int64_t position) {
  const int64_t half = width / 2;
  const C *cosine = table.cosine + position * half, *sine = table.sine + position * half;
  for (int64_t h = 0; h < heads; ++h, row += padded<C>(width)) {
    turn(row, cosine, sine, C{1}, half, row);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_TRANSFORMER_ROWS_INL_H
