// Philox, a vector of counters at a time. Its four words live in 64-bit lanes, so that a
// 32 x 32 -> 64 multiplication needs no shuffle; what gathers in the upper halves is never read.
#if defined(HEADWISE_PHILOX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_PHILOX_INL_H
#undef HEADWISE_PHILOX_INL_H
#else
#define HEADWISE_PHILOX_INL_H
#endif

#include "csrc/kernels/cpu/vectors-inl.h"
#include "csrc/kernels/dropout.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

using Lane64 = hn::ScalableTag<uint64_t>;
using Words = hn::Vec<Lane64>;

HWY_INLINE Words multiply_low(Words a, uint32_t by) {
  const hn::Repartition<uint32_t, Lane64> d32;
  return hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, hn::Set(Lane64(), uint64_t{by})));
}

struct PhiloxVector {
  Words x0, x1, x2, x3;
};

// Philox4x32-7 of each lane's counter.
HWY_INLINE PhiloxVector draw_vector(const Dropout& dropout, PhiloxVector x) {
  const Lane64 d;
  uint32_t key0 = static_cast<uint32_t>(dropout.seed);
  uint32_t key1 = static_cast<uint32_t>(dropout.seed >> 32);
  HWY_UNROLL(7)
  for (int round = 0; round < 7; ++round) {
    const Words product0 = multiply_low(x.x0, 0xD2511F53);
    const Words product1 = multiply_low(x.x2, 0xCD9E8D57);
    x.x0 = hn::Xor3(hn::ShiftRight<32>(product1), x.x1, hn::Set(d, uint64_t{key0}));
    x.x1 = product1;
    x.x2 = hn::Xor3(hn::ShiftRight<32>(product0), x.x3, hn::Set(d, uint64_t{key1}));
    x.x3 = product0;
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return x;
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_PHILOX_INL_H
