// n-gram counts of two sequences of symbols (token ids or code points).
#pragma once

#include <cstdint>
#include <span>

namespace headwise::metrics {

inline int64_t ngram_count(int64_t length, int64_t order) {
  return length < order ? 0 : length - order + 1;
}

/// How many n-grams the two have in common, each counted as often as both have it. O(n log n).
int64_t common_ngrams(std::span<const uint32_t> a, std::span<const uint32_t> b, int64_t order);

}  // namespace headwise::metrics
