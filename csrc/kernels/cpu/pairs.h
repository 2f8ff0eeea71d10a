// Two BFloat16 as one factor of a product.
#pragma once

#include <cstdint>
#include <type_traits>

namespace headwise::kernels::cpu {

/// The first number in the lower half. kInstruction: multiplied by AVX512_BF16's instruction, which
/// takes and gives 0 for subnormal numbers; else by two float products, with the same rounding.
template <bool kInstruction>
struct Pair {
  uint32_t bits;
};

template <typename F>
constexpr bool kIsPair = false;
template <bool kInstruction>
constexpr bool kIsPair<Pair<kInstruction>> = true;

/// Numbers in a factor.
template <typename F>
constexpr int64_t kNumbers = kIsPair<F> ? 2 : 1;

/// What products of such factors are summed in.
template <typename F>
using Sum = std::conditional_t<kIsPair<F>, float, F>;

}  // namespace headwise::kernels::cpu
