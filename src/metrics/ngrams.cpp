#include "src/metrics/ngrams.h"

#include <algorithm>
#include <vector>

namespace headwise::metrics {

int64_t common_ngrams(std::span<const uint32_t> a, std::span<const uint32_t> b, int64_t order) {
  using Ngram = const uint32_t*;  // its first symbol
  const auto less = [order](Ngram x, Ngram y) {
    return std::lexicographical_compare(x, x + order, y, y + order);
  };
  const auto sorted = [&](std::span<const uint32_t> symbols) {
    std::vector<Ngram> ngrams(ngram_count(static_cast<int64_t>(symbols.size()), order));
    for (size_t i = 0; i < ngrams.size(); ++i) ngrams[i] = symbols.data() + i;
    std::sort(ngrams.begin(), ngrams.end(), less);
    return ngrams;
  };
  const std::vector<Ngram> left = sorted(a), right = sorted(b);
  int64_t common = 0;
  for (auto x = left.begin(), y = right.begin(); x != left.end() && y != right.end();) {
    if (less(*x, *y)) {
      ++x;
    } else if (less(*y, *x)) {
      ++y;
    } else {
      ++common, ++x, ++y;
    }
  }
  return common;
}

}  // namespace headwise::metrics
