// Decoding with a cache against attention over the whole sequence.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "csrc/ops/attention.h"
#include "tests/cpp/ops/formula.h"

namespace headwise::testing {
namespace {

constexpr int64_t kB = 3, kH = 4, kG = 2, kCapacity = 12, kD = 8, kDv = 5;

at::Tensor int64s(const std::vector<int64_t>& numbers) { return at::tensor(numbers); }

struct Cache {
  // What was never written is NaN: nothing of it may be read.
  at::Tensor key = at::full({kB + 1, kG, kCapacity, kD}, std::nan(""), at::kDouble);
  at::Tensor value = at::full({kB + 1, kG, kCapacity, kDv}, std::nan(""), at::kDouble);
};

TEST(Decode, StepByStepEqualsTheWhole) {
  at::manual_seed(1);
  const at::Tensor query = randn({kB, kH, kCapacity, kD}), key = randn({kB, kG, kCapacity, kD});
  const at::Tensor value = randn({kB, kG, kCapacity, kDv});
  AttentionOptions options;
  options.causal = true;
  const auto whole = attention(query, key, value, options);
  Cache cache;
  int64_t length = 0;
  for (const int64_t tokens : {5, 1, 1, 2, 1, 2}) {
    const int64_t begin = length;
    const auto step = [&](const at::Tensor& t) { return t.slice(2, begin, begin + tokens); };
    cache_append(cache.key, cache.value, step(key), step(value), int64s({length, length, length}),
                 length);
    length += tokens;
    const auto got =
        attention_decode(step(query), cache.key, cache.value, int64s({length, length, length}));
    EXPECT_LE(difference(got.output, step(whole.output)), 0.0);
    EXPECT_LE(difference(got.lse, step(whole.lse)), 0.0);
  }
}

TEST(Decode, TakesItsOwnLengthOfEachSequenceAndAllMasks) {
  at::manual_seed(2);
  const at::Tensor query = randn({kB, kH, 2, kD}), key = randn({kB, kG, kCapacity, kD});
  const at::Tensor value = randn({kB, kG, kCapacity, kDv});
  const at::Tensor lengths = int64s({12, 2, 7}).to(at::kInt);
  for (const bool causal : {true, false}) {
    DecodeOptions options;
    options.causal = causal;
    options.window = {{4, -1}};
    options.hide = at::rand({kB, 1, 1, kCapacity}) < 0.2;
    options.bias = randn({kH, 2, kCapacity}).unsqueeze(0);
    options.scale = 0.5;
    const auto got = attention_decode(query, key, value, lengths, options);
    AttentionOptions same;
    same.causal = causal;
    same.window = options.window;
    same.hide = options.hide;
    same.bias = options.bias;
    same.scale = 0.5;
    same.key_lengths = lengths;
    same.query_lengths = int64s({2, 2, 2});
    const auto want = attention(query, key, value, same);
    EXPECT_LE(difference(got.output, want.output), 0.0);
    EXPECT_LE(difference(got.lse, want.lse), 0.0);
  }
}

TEST(Decode, ReadsTheRowsTheBeamIndexNames) {
  at::manual_seed(3);
  const at::Tensor query = randn({kB, kH, 1, kD});
  const at::Tensor key = randn({kB + 1, kG, kCapacity, kD}),
                   value = randn({kB + 1, kG, kCapacity, kDv});
  const at::Tensor lengths = int64s({4, 12, 9});
  DecodeOptions rows, positions;
  rows.beam_index = at::tensor(std::vector<int32_t>{3, 0, 3}, at::kInt);
  const at::Tensor index = at::tensor(std::vector<int64_t>{3, 0, 3});
  const auto by_row = attention_decode(query, key, value, lengths, rows);
  const auto want =
      attention_decode(query, key.index_select(0, index), value.index_select(0, index), lengths);
  EXPECT_TRUE(at::equal(by_row.output, want.output));
  // A row for each position; past the length it may say anything.
  at::Tensor table = at::randint(kB + 1, {kB, kCapacity}, at::kInt);
  const auto gather = [&](const at::Tensor& cache) {
    at::Tensor result = at::empty({kB, kG, kCapacity, cache.size(3)}, at::kDouble);
    for (int64_t b = 0; b < kB; ++b) {
      for (int64_t j = 0; j < kCapacity; ++j) {
        result.select(0, b).select(1, j).copy_(cache[table[b][j].item<int>()].select(1, j));
      }
    }
    return result;
  };
  const auto expected = attention_decode(query, gather(key), gather(value), lengths);
  table[0].slice(0, 4).fill_(-7);
  positions.beam_index = table;
  EXPECT_TRUE(
      at::equal(attention_decode(query, key, value, lengths, positions).output, expected.output));
}

TEST(CacheAppend, RefusesBeforeItWritesAnything) {
  Cache cache;
  const at::Tensor key = randn({kB, kG, 2, kD}), value = randn({kB, kG, 2, kDv});
  EXPECT_THROW(cache_append(cache.key, cache.value, key, value, int64s({0, 0, 11})), c10::Error);
  EXPECT_THROW(cache_append(cache.key, cache.value, key, value, int64s({0, 0, -1})), c10::Error);
  EXPECT_THROW(cache_append(cache.key, cache.value, key, value, int64s({0, 0, 0}), 11), c10::Error);
  EXPECT_TRUE(cache.key.isnan().all().item<bool>());
  const void* before = cache.key.data_ptr();
  cache_append(cache.key, cache.value, key, value, int64s({0, 4, 10}));
  EXPECT_EQ(cache.key.data_ptr(), before);
  EXPECT_TRUE(at::equal(cache.key[1].slice(1, 4, 6), key[1]));
  EXPECT_TRUE(at::equal(cache.value[2].slice(1, 10, 12), value[2]));
  EXPECT_EQ(cache.key.isnan().logical_not().sum().item<int64_t>(), key.numel());
}

TEST(CacheAppend, CountsTheVersionOfTheCache) {
  Cache cache;
  const auto version = cache.key._version();
  cache_append(cache.key, cache.value, randn({kB, kG, 1, kD}), randn({kB, kG, 1, kDv}),
               int64s({0, 0, 0}));
  EXPECT_GT(cache.key._version(), version);
}

}  // namespace
}  // namespace headwise::testing
