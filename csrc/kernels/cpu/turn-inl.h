// Turns the channel pairs (i, i + D / 2) of one head (Su et al. 2021).
#if defined(HEADWISE_TURN_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_TURN_INL_H
#undef HEADWISE_TURN_INL_H
#else
#define HEADWISE_TURN_INL_H
#endif

#include "csrc/kernels/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// y may be x. `sign` is 1, or -1 to turn back.
template <typename C>
HWY_INLINE void turn(const C* x, const C* cosine, const C* sine, C sign, int64_t half, C* y) {
  const Tag<C> d;
  const Vec<C> signs = hn::Set(d, sign);
  int64_t i = 0;
  for (; i + lanes<C>() <= half; i += lanes<C>()) {
    const Vec<C> a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + half + i);
    const Vec<C> c = hn::LoadU(d, cosine + i), s = hn::Mul(signs, hn::LoadU(d, sine + i));
    hn::StoreU(hn::Sub(hn::Mul(a, c), hn::Mul(b, s)), d, y + i);
    hn::StoreU(hn::Add(hn::Mul(b, c), hn::Mul(a, s)), d, y + half + i);
  }
  for (; i < half; ++i) {
    const C a = x[i], b = x[half + i], c = cosine[i], s = sign * sine[i];
    y[i] = a * c - b * s;
    y[half + i] = b * c + a * s;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_TURN_INL_H
