// Factors of a product, one number or two BFloat16 at a time. A pair holds two numbers that follow
// each other along the depth; a product of pairs adds both to a float sum, the second first, as
// the instruction of AVX512_BF16 does.
#if defined(HEADWISE_PAIRS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_PAIRS_INL_H
#undef HEADWISE_PAIRS_INL_H
#else
#define HEADWISE_PAIRS_INL_H
#endif

#include "csrc/kernels/cpu/pairs.h"
#include "csrc/kernels/cpu/vectors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// Highway 1.0 has no target with AVX512_BF16, so its two instructions are written in assembly.
// Whoever chooses Pair<true> has asked the processor (instruction_set.h).
#undef HEADWISE_PAIR_INSTRUCTIONS
#if HWY_TARGET <= HWY_AVX3
#define HEADWISE_PAIR_INSTRUCTIONS 1
#else
#define HEADWISE_PAIR_INSTRUCTIONS 0
#endif

template <typename F, class D>
HWY_INLINE hn::Vec<D> load_factor(D d, const F* from) {
  if constexpr (kIsPair<F>) {
    return hn::BitCast(d, hn::LoadU(hn::RebindToUnsigned<D>(), &from->bits));
  } else {
    return hn::LoadU(d, from);
  }
}

// sum + *a b
template <typename F, class D, class V = hn::Vec<D>>
HWY_INLINE V multiply_add(D d, const F* a, V b, V sum) {
  if constexpr (!kIsPair<F>) {
    return hn::MulAdd(hn::Set(d, *a), b, sum);
  } else if constexpr (HEADWISE_PAIR_INSTRUCTIONS && std::is_same_v<F, Pair<true>>) {
#if HEADWISE_PAIR_INSTRUCTIONS
    if constexpr (sizeof(sum.raw) == 64) {
      asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum.raw) : "v"(b.raw), "m"(a->bits));
    } else {
      asm("vdpbf16ps %2%{1to8%}, %1, %0" : "+v"(sum.raw) : "v"(b.raw), "m"(a->bits));
    }
#endif
    return sum;
  } else {
    const hn::RebindToUnsigned<D> du;
    const auto first = [&](auto x) { return hn::BitCast(d, hn::ShiftLeft<16>(x)); };
    const auto second = [&](auto x) {
      return hn::BitCast(d, hn::And(x, hn::Set(du, 0xFFFF0000u)));
    };
    const auto left = hn::Set(du, a->bits), right = hn::BitCast(du, b);
    return hn::MulAdd(first(left), first(right), hn::MulAdd(second(left), second(right), sum));
  }
}

// to[i] = the pair (first[i], second[i]): two rows as one row of pairs.
template <bool kInstruction>
HWY_INLINE void pair_vectors(Vec<float> first, Vec<float> second, Pair<kInstruction>* to) {
  const hn::RebindToUnsigned<Tag<float>> du;
#if HEADWISE_PAIR_INSTRUCTIONS
  if constexpr (kInstruction) {
    // One after the other, then alternating.
    HWY_ALIGN static constexpr uint16_t kAlternating[32] = {
        0, 16, 1, 17, 2,  18, 3,  19, 4,  20, 5,  21, 6,  22, 7,  23,
        8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const auto order = hn::Load(hn::Repartition<uint16_t, Tag<float>>(), kAlternating);
    auto pairs = hn::BitCast(du, first);
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(pairs.raw) : "v"(first.raw), "v"(second.raw));
    asm("vpermw %0, %1, %0" : "+v"(pairs.raw) : "v"(order.raw));
    hn::StoreU(pairs, du, &to->bits);
    return;
  }
#endif
  const auto low = hn::ShiftRight<16>(bfloat16_bits(first));
  const auto high = hn::And(bfloat16_bits(second), hn::Set(du, 0xFFFF0000u));
  hn::StoreU(hn::Or(low, high), du, &to->bits);
}

// Two vectors that follow each other in a row, as a vector of pairs.
template <bool kInstruction>
HWY_INLINE void pair_neighbours(Vec<float> first, Vec<float> second, Pair<kInstruction>* to) {
#if HEADWISE_PAIR_INSTRUCTIONS
  if constexpr (kInstruction) {
    const hn::RebindToUnsigned<Tag<float>> du;
    auto both = hn::BitCast(du, first);
    asm("vcvtne2ps2bf16 %1, %2, %0" : "=v"(both.raw) : "v"(first.raw), "v"(second.raw));
    hn::StoreU(both, du, &to->bits);
    return;
  }
#endif
  auto* const numbers = reinterpret_cast<BFloat16*>(to);
  store(first, Tag<float>(), numbers);
  store(second, Tag<float>(), numbers + lanes<float>());
}

// A row of so many numbers, whole pairs of vectors, as pairs of neighbours.
template <bool kInstruction>
HWY_INLINE void pair_row(const float* from, int64_t width, Pair<kInstruction>* to) {
  const Tag<float> d;
  const int64_t step = lanes<float>();
  for (int64_t i = 0; i < width; i += 2 * step) {
    pair_neighbours(hn::LoadU(d, from + i), hn::LoadU(d, from + i + step), to + i / 2);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_PAIRS_INL_H
