// Memory of results is kept, found again and bounded.
#include "csrc/ops/memory.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <vector>

namespace headwise::ops {
namespace {

constexpr int64_t kMebibyte = int64_t{1} << 20;

at::Tensor bytes(int64_t count) { return empty_kept({count}, {1}, at::kByte); }

TEST(Memory, ABlockIsFoundAgainByTheNextOfItsSize) {
  const void* first = bytes(5 * kMebibyte).data_ptr();
  const size_t idle = kept_bytes();
  EXPECT_GE(idle, static_cast<size_t>(5 * kMebibyte));
  const at::Tensor second = bytes(5 * kMebibyte - 100);  // rounds up to the same size
  EXPECT_EQ(second.data_ptr(), first);
  EXPECT_LT(kept_bytes(), idle);
}

TEST(Memory, BlocksInUseAreNotGivenOut) {
  const at::Tensor one = bytes(kMebibyte), two = bytes(kMebibyte);
  EXPECT_NE(one.data_ptr(), two.data_ptr());
}

TEST(Memory, SmallBlocksAreLeftToTorch) {
  const size_t before = kept_bytes();
  bytes(1000);
  EXPECT_EQ(kept_bytes(), before);
}

TEST(Memory, WhatLiesIdleIsBounded) {
  std::vector<at::Tensor> held;
  for (int n = 0; n < 20; ++n) held.push_back(bytes(10 * kMebibyte));
  held.clear();
  EXPECT_LE(kept_bytes(), static_cast<size_t>(64 * kMebibyte));
  EXPECT_GE(kept_bytes(), static_cast<size_t>(50 * kMebibyte));
}

TEST(Memory, ATensorCanBeResized) {
  at::Tensor numbers = empty_kept({1 << 15}, {1}, at::kFloat);
  numbers.copy_(at::arange(1 << 15));
  numbers.resize_({1 << 20});
  EXPECT_TRUE(at::equal(numbers.slice(0, 0, 1 << 15), at::arange(1 << 15, at::kFloat)));
}

TEST(Memory, EmptyTensorsAndStridesAreAllowed) {
  EXPECT_EQ(empty_kept({0, 3}, {3, 1}, at::kFloat).numel(), 0);
  const at::Tensor turned = empty_kept({1000, 200}, {1, 1000}, at::kDouble);
  EXPECT_EQ(turned.stride(1), 1000);
  EXPECT_GE(turned.storage().nbytes(), 1000u * 200 * 8);
}

}  // namespace
}  // namespace headwise::ops
