#include "src/decode/best_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace headwise::decode {
namespace {

TEST(BestTokens, EqualsASortOfTheWholeRow) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<float> row(1 + random() % 40);
    for (float& value : row) value = -static_cast<float>(random() % 9);  // many ties
    std::vector<char> banned(row.size());
    for (char& flag : banned) flag = random() % 4 == 0;
    const auto also_banned = static_cast<int32_t>(random() % row.size());
    std::vector<int32_t> expected(row.size());
    std::iota(expected.begin(), expected.end(), 0);
    std::erase_if(expected, [&](int32_t id) { return banned[id] || id == also_banned; });
    std::stable_sort(expected.begin(), expected.end(),
                     [&](int32_t a, int32_t b) { return row[a] > row[b]; });
    std::vector<TokenPick> picks(1 + random() % 10);
    const int64_t count = best_tokens(row, {banned, also_banned}, picks);
    ASSERT_EQ(count, static_cast<int64_t>(std::min(picks.size(), expected.size())));
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(picks[i].token, expected[i]);
      EXPECT_EQ(picks[i].log_probability, row[expected[i]]);
    }
  }
}

TEST(BestTokens, ImpossibleTokensAreLeftOut) {
  const float never = -std::numeric_limits<float>::infinity();
  const std::vector<float> row{never, -1, never, -2};
  const std::vector<char> banned(4);
  std::vector<TokenPick> picks(4);
  EXPECT_EQ(best_tokens(row, {banned, -1}, picks), 2);
  EXPECT_EQ(picks[0].token, 1);
  EXPECT_EQ(picks[1].token, 3);
}

}  // namespace
}  // namespace headwise::decode
