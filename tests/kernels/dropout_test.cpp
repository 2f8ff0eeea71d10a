// The bits of dropout: published vectors, an independent formula, and statistics.
#include "csrc/kernels/dropout.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/reference.h"

namespace headwise::kernels {
namespace {

void expect_words(const Philox4& got, std::initializer_list<uint32_t> want) {
  int n = 0;
  for (const uint32_t word : want) EXPECT_EQ(got.word[n++], word);
}

// Known answers published with Random123 for philox4x32 with 7 rounds.
TEST(Philox, GivesThePublishedAnswers) {
  expect_words(philox4x32_7({{0, 0, 0, 0}}, 0), {0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48});
  expect_words(philox4x32_7({{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}}, ~uint64_t{0}),
               {0x5207ddc2, 0x45165e59, 0x4d8ee751, 0x8c52f662});
  expect_words(philox4x32_7({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0x299f31d0a4093822),
               {0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a});
}

TEST(Dropout, KeepsWhatTheDefinitionKeeps) {
  const Dropout dropout{0x123456789ABCDEF0, 77, dropout_threshold(0.4)};
  for (int64_t head : {int64_t{0}, int64_t{5}, (int64_t{1} << 32) + 5}) {
    for (int64_t i : {0, 1, 31, 1000000}) {
      for (int64_t j = 0; j < 100; ++j) {
        EXPECT_EQ(dropout_keeps(dropout, head, i, j),
                  testing::reference_keeps(dropout, head, i, j));
      }
    }
  }
}

TEST(Dropout, ThresholdRoundsToSixteenBits) {
  EXPECT_EQ(dropout_threshold(0.0), 0u);
  EXPECT_EQ(dropout_threshold(0.5), 32768u);
  EXPECT_EQ(dropout_threshold(0.1), 6554u);
  EXPECT_EQ(dropout_threshold(0.9999999), 65535u);
  EXPECT_EQ(dropout_threshold(1e-9), 0u);
  EXPECT_DOUBLE_EQ(dropout_scale({0, 0, 32768}), 2.0);
}

// Kept with the promised frequency, whichever way one walks, and independently of the neighbours.
TEST(Dropout, HasTheRightStatistics) {
  const Dropout dropout{42, 0, dropout_threshold(0.25)};
  const double p = 0.25, n = 512 * 512;
  double kept = 0, right = 0, below = 0, next_head = 0, next_offset = 0, next_seed = 0;
  for (int64_t i = 0; i < 512; ++i) {
    for (int64_t j = 0; j < 512; ++j) {
      if (!dropout_keeps(dropout, 3, i, j)) continue;
      ++kept;
      right += dropout_keeps(dropout, 3, i, j + 1);
      below += dropout_keeps(dropout, 3, i + 1, j);
      next_head += dropout_keeps(dropout, 4, i, j);
      next_offset += dropout_keeps({42, 1, dropout.threshold}, 3, i, j);
      next_seed += dropout_keeps({43, 0, dropout.threshold}, 3, i, j);
    }
  }
  const double deviations = 5.0;
  EXPECT_NEAR(kept / n, 1 - p, deviations * std::sqrt(p * (1 - p) / n));
  for (const double both : {right, below, next_head, next_offset, next_seed}) {
    EXPECT_NEAR(both / kept, 1 - p, deviations * std::sqrt(p * (1 - p) / kept));
  }
}

}  // namespace
}  // namespace headwise::kernels
