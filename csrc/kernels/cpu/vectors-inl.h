// Vectors of the compute type: loads and stores that convert, and the exponential. Compiled once
// for every instruction set.
#if defined(HEADWISE_VECTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_VECTORS_INL_H
#undef HEADWISE_VECTORS_INL_H
#else
#define HEADWISE_VECTORS_INL_H
#endif

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "csrc/kernels/element.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <typename C>
using Tag = hn::ScalableTag<C>;
template <typename C>
using Vec = hn::Vec<Tag<C>>;

// Vectors for the last rows of a tile, where half a vector holds them: processors that compute
// 64-byte vectors in two halves then skip one.
#if HWY_TARGET <= HWY_AVX3
template <typename C>
using TailTag = hn::Half<Tag<C>>;
#else
template <typename C>
using TailTag = Tag<C>;
#endif

template <typename C>
HWY_INLINE int64_t lanes() {
  return static_cast<int64_t>(hn::Lanes(Tag<C>()));
}
template <typename C>
HWY_INLINE int64_t round_up_to_vectors(int64_t n) {
  return (n + lanes<C>() - 1) / lanes<C>() * lanes<C>();
}

// Loads as many elements as a vector of the compute type has lanes.
HWY_INLINE Vec<float> load(Tag<float> d, const float* from) { return hn::LoadU(d, from); }
HWY_INLINE Vec<double> load(Tag<double> d, const double* from) { return hn::LoadU(d, from); }
HWY_INLINE Vec<float> load(Tag<float> d, const BFloat16* from) {
  const hn::RebindToUnsigned<Tag<float>> bits;
  const hn::Rebind<uint16_t, Tag<float>> half;
  const auto low = hn::LoadU(half, reinterpret_cast<const uint16_t*>(from));
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(bits, low)));
}
// Highway converts Half exactly only where the machine has an instruction for it.
#if HWY_TARGET == HWY_SSE4
#define HEADWISE_CONVERTS_HALF 0
#else
#define HEADWISE_CONVERTS_HALF 1
#endif
HWY_INLINE Vec<float> load(Tag<float> d, const Half* from) {
#if HEADWISE_CONVERTS_HALF
  const hn::Rebind<hwy::float16_t, Tag<float>> half;
  return hn::PromoteTo(d, hn::LoadU(half, reinterpret_cast<const hwy::float16_t*>(from)));
#else
  HWY_ALIGN float numbers[16];
  for (size_t n = 0; n < hn::Lanes(d); ++n) numbers[n] = to_compute(from[n]);
  return hn::Load(d, numbers);
#endif
}

// Bits of the nearest BFloat16, ties to even, in the upper half of each lane.
template <class V>
HWY_INLINE auto bfloat16_bits(V x) {
  const hn::RebindToUnsigned<hn::DFromV<V>> du;
  const auto bits = hn::BitCast(du, x);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7FFFu)));
  const auto nan = hn::Or(bits, hn::Set(du, 0x400000u));
  const auto is_nan = hn::RebindMask(du, hn::IsNaN(x));
  return hn::IfThenElse(is_nan, nan, rounded);
}

HWY_INLINE void store(Vec<float> x, Tag<float> d, float* to) { hn::StoreU(x, d, to); }
HWY_INLINE void store(Vec<double> x, Tag<double> d, double* to) { hn::StoreU(x, d, to); }
HWY_INLINE void store(Vec<float> x, Tag<float>, BFloat16* to) {
  const hn::Rebind<uint16_t, Tag<float>> half;
  const hn::Rebind<int32_t, Tag<float>> signed32;
  // The shifted bits fit 16 unsigned bits, which is what DemoteTo from int32 saturates to.
  const auto low = hn::BitCast(signed32, hn::ShiftRight<16>(bfloat16_bits(x)));
  hn::StoreU(hn::DemoteTo(half, low), half, reinterpret_cast<uint16_t*>(to));
}
HWY_INLINE void store(Vec<float> x, Tag<float> d, Half* to) {
#if HEADWISE_CONVERTS_HALF
  const hn::Rebind<hwy::float16_t, Tag<float>> half;
  hn::StoreU(hn::DemoteTo(half, x), half, reinterpret_cast<hwy::float16_t*>(to));
#else
  HWY_ALIGN float numbers[16];
  hn::Store(x, d, numbers);
  for (size_t n = 0; n < hn::Lanes(d); ++n) to[n] = from_compute<Half>(numbers[n]);
#endif
  (void)d;
}

// x rounded to T and back.
template <typename T, typename V>
HWY_INLINE V rounded_to(V x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    const hn::RebindToUnsigned<hn::DFromV<V>> du;
    return hn::BitCast(hn::DFromV<V>(), hn::And(bfloat16_bits(x), hn::Set(du, 0xFFFF0000u)));
  } else if constexpr (std::is_same_v<T, Half>) {
    HWY_ALIGN Half numbers[16];
    store(x, Tag<float>(), numbers);
    return load(Tag<float>(), numbers);
  } else {
    return x;
  }
}

// e^x for x <= 0 or little more; exactly 0 below -87.7; NaN stays NaN. 2^f is a polynomial of
// degree 6 on [-1/2, 1/2], fitted by weighted least squares; its own relative error is 2e-9.
template <class V, std::enable_if_t<std::is_same_v<hn::TFromV<V>, float>, int> = 0>
HWY_INLINE V exp_score(V x) {
  const hn::DFromV<V> d;
  const hn::RebindToSigned<hn::DFromV<V>> di;
  // The second operand is what x86 returns when one is NaN.
  x = hn::Max(hn::Set(d, -88.1f), x);
  const auto per_unit = hn::Set(d, 1.4426950408889634f);
  const auto shift = hn::Set(d, 12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const auto shifted = hn::MulAdd(x, per_unit, shift);
  const auto f = hn::MulSub(x, per_unit, hn::Sub(shifted, shift));
  auto p = hn::MulAdd(f, hn::Set(d, 1.535336479e-4f), hn::Set(d, 1.339887490e-3f));
  p = hn::MulAdd(f, p, hn::Set(d, 9.618437352e-3f));
  p = hn::MulAdd(f, p, hn::Set(d, 5.550332470e-2f));
  p = hn::MulAdd(f, p, hn::Set(d, 2.402264791e-1f));
  p = hn::MulAdd(f, p, hn::Set(d, 6.931472029e-1f));
  p = hn::MulAdd(f, p, hn::Set(d, 1.0f));
  // The low bits of `shifted` are the integer; as an exponent they make 2^n, and 0 for n = -127.
  const auto exponent = hn::Add(hn::BitCast(di, shifted), hn::Set(di, 127));
  return hn::Mul(p, hn::BitCast(d, hn::ShiftLeft<23>(exponent)));
}
template <class V, std::enable_if_t<std::is_same_v<hn::TFromV<V>, double>, int> = 0>
HWY_INLINE V exp_score(V x) {
  return hn::IfThenElse(hn::IsNaN(x), x, hn::Exp(hn::DFromV<V>(), x));
}

// Natural logarithm of a sum of exponentials: x >= 0, -inf for 0; NaN stays NaN.
HWY_INLINE Vec<float> log_sum(Vec<float> x) {
  const Tag<float> d;
  const Vec<float> log = hn::IfThenElse(hn::IsNaN(x), x, hn::Log(d, x));
  const Vec<float> none = hn::Set(d, -std::numeric_limits<float>::infinity());
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), none, log);
}
// Highway's is off by up to two units in the last place, as much as the whole sum.
HWY_INLINE Vec<double> log_sum(Vec<double> x) {
  const Tag<double> d;
  HWY_ALIGN double numbers[8];
  hn::Store(x, d, numbers);
  for (int64_t i = 0; i < static_cast<int64_t>(hn::Lanes(d)); ++i)
    numbers[i] = std::log(numbers[i]);
  return hn::Load(d, numbers);
}

template <class D>
HWY_INLINE hn::Vec<D> minus_infinity(D d) {
  return hn::Set(d, -std::numeric_limits<hn::TFromD<D>>::infinity());
}

// Mask of the lanes first <= index + lane < end.
template <typename C>
HWY_INLINE hn::Mask<Tag<C>> lanes_within(int64_t index, int64_t begin, int64_t end) {
  using Int = std::conditional_t<sizeof(C) == 4, int32_t, int64_t>;
  const hn::Rebind<Int, Tag<C>> di;
  const auto column = hn::Iota(di, static_cast<Int>(index));
  const auto from = hn::Set(di, static_cast<Int>(begin)), to = hn::Set(di, static_cast<Int>(end));
  return hn::RebindMask(Tag<C>(), hn::AndNot(hn::Lt(column, from), hn::Lt(column, to)));
}

template <typename C>
HWY_INLINE C largest_lane(Vec<C> x) {
  return hn::GetLane(hn::MaxOfLanes(Tag<C>(), x));
}
template <typename C>
HWY_INLINE C sum_of_lanes(Vec<C> x) {
  return hn::GetLane(hn::SumOfLanes(Tag<C>(), x));
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#undef HEADWISE_CONVERTS_HALF
#endif  // HEADWISE_VECTORS_INL_H
