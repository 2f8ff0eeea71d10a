// Conversions of the 16-bit types against the definition of the formats, for every number there is,
// alone and as the kernels of every instruction set do them.
#include "csrc/kernels/element.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "tests/kernels/attention_checks.h"

namespace headwise::testing {
namespace {

using kernels::BFloat16;
using kernels::Half;

struct Format {
  int exponent_bits, mantissa_bits;
};

// The number that 16 bits stand for, by arithmetic.
double meaning(uint32_t bits, Format f) {
  const int value = static_cast<int>(bits);
  const int exponent = value >> f.mantissa_bits & ((1 << f.exponent_bits) - 1);
  const int mantissa = value & ((1 << f.mantissa_bits) - 1), top = (1 << f.exponent_bits) - 1;
  const double sign = bits >> 15 != 0 ? -1.0 : 1.0, bias = (top >> 1) + f.mantissa_bits;
  if (exponent == top) return mantissa != 0 ? std::nan("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - static_cast<int>(bias));
  return sign * std::ldexp(mantissa + (1 << f.mantissa_bits), exponent - static_cast<int>(bias));
}

template <typename T>
class ElementTest : public ::testing::Test {
 protected:
  static constexpr Format kFormat = std::is_same_v<T, Half> ? Format{5, 10} : Format{8, 7};

  static uint16_t round(float x) { return kernels::from_compute<T>(x).bits; }
};
using SixteenBits = ::testing::Types<BFloat16, Half>;
TYPED_TEST_SUITE(ElementTest, SixteenBits, TypeNames);

TYPED_TEST(ElementTest, MeansWhatTheFormatSays) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const double want = meaning(bits, this->kFormat);
    const float got = kernels::to_compute(TypeParam{static_cast<uint16_t>(bits)});
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(got)) << bits;
      ASSERT_TRUE(std::isnan(meaning(this->round(got), this->kFormat))) << bits;
    } else {
      ASSERT_EQ(got, want) << bits;
      ASSERT_EQ(std::signbit(got), bits >= 32768) << bits;
      ASSERT_EQ(this->round(got), bits);
    }
  }
}

// Around the middle between two neighbours: below goes down, above up, the middle to the even one.
TYPED_TEST(ElementTest, RoundsToTheNearest) {
  const Format format = this->kFormat;
  const uint32_t infinity = ((1u << format.exponent_bits) - 1) << format.mantissa_bits;
  for (uint32_t bits = 0; bits < infinity; ++bits) {
    const double low = meaning(bits, format);
    // Past the largest number the next one would be a power of two.
    const double high =
        bits + 1 < infinity ? meaning(bits + 1, format) : 2 * low - meaning(bits - 1, format);
    const float middle = static_cast<float>((low + high) / 2);
    const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
    for (const uint32_t sign : {0u, 0x8000u}) {
      const float s = sign != 0 ? -1.0f : 1.0f;
      ASSERT_EQ(this->round(s * middle), even | sign) << bits;
      ASSERT_EQ(this->round(s * std::nextafter(middle, 0.0f)), bits | sign);
      ASSERT_EQ(this->round(s * std::nextafter(middle, INFINITY)), (bits + 1) | sign);
    }
  }
  EXPECT_EQ(this->round(INFINITY), infinity);
  EXPECT_EQ(this->round(std::numeric_limits<float>::max()), infinity);
  EXPECT_EQ(this->round(-INFINITY), infinity | 0x8000u);
}

// Products of pairs take BFloat16 below 2^-126 for zero.
template <typename T>
bool is_flushed(uint32_t bits) {
  return std::is_same_v<T, BFloat16> && kernels::cpu::multiplies_pairs() && (bits & 0x7F80) == 0;
}

// One key: the output is the value, whatever it is; so all numbers pass through loads and stores.
TYPED_TEST(ElementTest, PassesThroughTheKernels) {
  using T = TypeParam;
  for (const std::string& set : kernels::cpu::instruction_sets()) {
    SCOPED_TRACE(set);
    const WithInstructionSet with(set);
    Case<T> problem(
        {.batch = 256, .heads = 1, .kv_heads = 1, .queries = 1, .keys = 1, .value_width = 256});
    auto params = problem.forward();
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const_cast<T&>(params.value.at(bits / 256, 0, 0, bits % 256)).bits = bits;
    }
    run_plan(params);
    int64_t wrong = 0;
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      const float want =
          is_flushed<T>(bits) ? 0.0f : kernels::to_compute(T{static_cast<uint16_t>(bits)});
      const float got = kernels::to_compute(params.output.at(bits / 256, 0, 0, bits % 256));
      wrong += std::isnan(want) ? !std::isnan(got) : got != want;
    }
    EXPECT_EQ(wrong, 0) << "of 65536 numbers";
  }
}

// Two keys of equal weight: the output is the mean of neighbours, a tie, rounded to the even one.
TYPED_TEST(ElementTest, IsRoundedToTheNearestByTheKernels) {
  using T = TypeParam;
  for (const std::string& set : kernels::cpu::instruction_sets()) {
    SCOPED_TRACE(set);
    const WithInstructionSet with(set);
    Case<T> problem({.batch = 124,
                     .heads = 1,
                     .kv_heads = 1,
                     .queries = 1,
                     .keys = 2,
                     .value_width = 256,
                     .magnitude = 0.0});
    auto params = problem.forward();
    const auto value = [&](uint32_t bits, int64_t key) -> T& {
      return const_cast<T&>(params.value.at(bits / 256, 0, key, bits % 256));
    };
    for (uint32_t bits = 0; bits < 124 * 256; ++bits) {
      value(bits, 0).bits = bits;
      value(bits, 1).bits = bits + 1;
    }
    run_plan(params);
    int64_t wrong = 0;
    for (uint32_t bits = 0; bits + 1 < 124 * 256; ++bits) {
      if (is_flushed<T>(bits)) continue;
      const uint32_t even = bits % 2 == 0 ? bits : bits + 1;
      wrong += params.output.at(bits / 256, 0, 0, bits % 256).bits != even;
    }
    EXPECT_EQ(wrong, 0) << "of " << 124 * 256 << " means";
  }
}

}  // namespace
}  // namespace headwise::testing
