#include "src/data/length_ratios.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace headwise::data {
namespace {

using Lengths = std::vector<int64_t>;

Lengths random_lengths(int64_t count, std::mt19937_64& random) {
  Lengths lengths;
  for (int64_t i = 0; i < count; ++i) lengths.push_back(static_cast<int64_t>(5 + random() % 120));
  return lengths;
}

/// Translations about 1.3 times as long, with some scatter.
Lengths translated(const Lengths& source, std::mt19937_64& random) {
  Lengths target;
  for (const int64_t length : source) {
    const double scatter = 0.9 + 0.2 * static_cast<double>(random() % 1000) / 1000;
    target.push_back(std::llround(1.3 * scatter * static_cast<double>(length)));
  }
  return target;
}

TEST(SurplusLine, FindsARemovedBlockWithinALine) {
  std::mt19937_64 random(1);
  for (const int64_t block : {1, 2, 10}) {
    for (const int64_t at : {0, 1, 57, 150, 199}) {
      const Lengths longer = random_lengths(200, random);
      Lengths shorter = translated(longer, random);
      const auto begin = shorter.begin() + std::min<int64_t>(at, 200 - block);
      shorter.erase(begin, begin + block);
      const int64_t expected = std::min<int64_t>(at, 200 - block) + 1;
      EXPECT_NEAR(static_cast<double>(surplus_line(longer, shorter)), static_cast<double>(expected),
                  1)
          << block << " " << at;
    }
  }
}

TEST(SurplusLine, FindsAnInsertedEmptyLineExactly) {
  std::mt19937_64 random(2);
  for (const int64_t at : {0, 30, 99}) {
    const Lengths shorter = random_lengths(99, random);
    Lengths longer = translated(shorter, random);
    longer.insert(longer.begin() + at, 0);
    EXPECT_EQ(surplus_line(longer, shorter), at + 1);
  }
}

TEST(SurplusLine, ATruncatedFileEndsEarly) {
  std::mt19937_64 random(3);
  const Lengths longer = random_lengths(100, random);
  Lengths shorter = translated(longer, random);
  shorter.resize(60);
  EXPECT_NEAR(static_cast<double>(surplus_line(longer, shorter)), 61, 2);
  EXPECT_EQ(surplus_line({7, 7, 7, 7}, {7, 7}), 3);  // nothing to tell by: the end
  EXPECT_EQ(surplus_line({4, 5}, {}), 1);
}

/// The definition, tried at every place.
int64_t by_brute_force(const Lengths& longer, const Lengths& shorter) {
  const auto mean = [](const Lengths& lengths) {
    double sum = 0;
    for (const int64_t length : lengths) sum += static_cast<double>(length);
    return sum / static_cast<double>(lengths.size());
  };
  const double usual = std::log((mean(longer) + 5) / (mean(shorter) + 5));
  double best = INFINITY;
  size_t line = 0;
  for (size_t k = 0; k <= shorter.size(); ++k) {
    Lengths rest = longer;
    rest.erase(rest.begin() + static_cast<int64_t>(k),
               rest.begin() + static_cast<int64_t>(k + longer.size() - shorter.size()));
    double cost = 0;
    for (size_t i = 0; i < rest.size(); ++i) {
      cost += std::abs(
          std::log(static_cast<double>(rest[i] + 5) / static_cast<double>(shorter[i] + 5)) - usual);
    }
    if (cost <= best + 1e-9) {
      best = cost;
      line = k + 1;
    }
  }
  return static_cast<int64_t>(line);
}

TEST(SurplusLine, IsTheBestPlaceOfAll) {
  std::mt19937_64 random(4);
  for (int i = 0; i < 300; ++i) {
    const auto shorter = random_lengths(static_cast<int64_t>(1 + random() % 12), random);
    const auto longer =
        random_lengths(static_cast<int64_t>(shorter.size() + 1 + random() % 4), random);
    EXPECT_EQ(surplus_line(longer, shorter), by_brute_force(longer, shorter));
  }
}

TEST(LengthRatios, QuantilesOfAKnownDistribution) {
  Lengths source, target;
  for (int64_t i = 100; i >= 1; --i) {
    source.push_back(9);
    target.push_back(10 * i - 1);  // ratios 1, 2, ... 100
  }
  const LengthRatios ratios = length_ratios(source, target);
  EXPECT_DOUBLE_EQ(ratios.least, 1);
  EXPECT_DOUBLE_EQ(ratios.percent1, 1);
  EXPECT_DOUBLE_EQ(ratios.median, 50);
  EXPECT_DOUBLE_EQ(ratios.percent99, 99);
  EXPECT_DOUBLE_EQ(ratios.greatest, 100);
  EXPECT_EQ(length_ratios({}, {}).median, 0);
}

TEST(LengthRatios, ExtremeIsFourTimesOffTheMedianAndNotTiny) {
  const LengthRatios ratios{.median = 1};
  EXPECT_TRUE(is_extreme(9, 49, ratios));
  EXPECT_TRUE(is_extreme(49, 9, ratios));
  EXPECT_FALSE(is_extreme(9, 39, ratios));
  EXPECT_FALSE(is_extreme(1, 19, ratios));
  EXPECT_TRUE(is_extreme(1, 20, ratios));
}

}  // namespace
}  // namespace headwise::data
