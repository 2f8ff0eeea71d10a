#include "src/data/length_ratios.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace headwise::data {
namespace {

double ratio_of(int64_t source, int64_t target) {
  return static_cast<double>(target + 1) / static_cast<double>(source + 1);
}

double mean(const std::vector<int64_t>& lengths) {
  const double sum = std::accumulate(lengths.begin(), lengths.end(), 0.0);
  return sum / static_cast<double>(lengths.size());
}

}  // namespace

LengthRatios length_ratios(const std::vector<int64_t>& source, const std::vector<int64_t>& target) {
  if (source.empty()) return {};
  std::vector<double> ratios;
  for (size_t i = 0; i < source.size(); ++i) ratios.push_back(ratio_of(source[i], target[i]));
  std::sort(ratios.begin(), ratios.end());
  const auto quantile = [&](double share) {
    const double rank = std::ceil(share * static_cast<double>(ratios.size()));
    return ratios[static_cast<size_t>(std::max(rank, 1.0)) - 1];
  };
  return {ratios.front(), quantile(0.01), quantile(0.5), quantile(0.99), ratios.back()};
}

bool is_extreme(int64_t source, int64_t target, const LengthRatios& ratios) {
  constexpr double kFactor = 4;
  constexpr int64_t kLongEnough = 20;
  const double relative = ratio_of(source, target) / ratios.median;
  return std::max(source, target) >= kLongEnough && (relative > kFactor || relative < 1 / kFactor);
}

int64_t surplus_line(const std::vector<int64_t>& longer, const std::vector<int64_t>& shorter) {
  if (shorter.empty()) return 1;
  constexpr double kSoften = 5;  // characters; a two-letter line must not weigh like a long one
  const double usual = std::log((mean(longer) + kSoften) / (mean(shorter) + kSoften));
  const auto misfit = [&](size_t in_longer, size_t in_shorter) {
    const double a = static_cast<double>(longer[in_longer]) + kSoften;
    const double b = static_cast<double>(shorter[in_shorter]) + kSoften;
    return std::abs(std::log(a / b) - usual);
  };
  const size_t count = shorter.size(), surplus = longer.size() - count;
  // Cost of a block before line k, relative to one at the end; built up backwards from k = count.
  double cost = 0, best = 0;
  size_t best_line = count;
  for (size_t k = count; k-- > 0;) {
    cost += misfit(k + surplus, k) - misfit(k, k);
    if (cost < best - 1e-9) {
      best = cost;
      best_line = k;
    }
  }
  return static_cast<int64_t>(best_line) + 1;
}

}  // namespace headwise::data
