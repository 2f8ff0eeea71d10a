// What BLEU and chrF share: statistics per sentence, whose sums give the score of any set of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "src/metrics/corpus_scores.h"

namespace headwise::metrics {

template <size_t N>
using Counts = std::array<int64_t, N>;

template <size_t N>
void add(Counts<N>& sum, const Counts<N>& counts) {
  for (size_t i = 0; i < N; ++i) sum[i] += counts[i];
}

template <size_t N>
Counts<N> sum_of(const std::vector<Counts<N>>& sentences) {
  Counts<N> sum{};
  for (const Counts<N>& sentence : sentences) add(sum, sentence);
  return sum;
}

inline void check_pairs(const std::vector<std::string>& hypotheses,
                        const std::vector<std::string>& references) {
  if (hypotheses.size() != references.size() || hypotheses.empty()) {
    throw std::invalid_argument("metrics: " + std::to_string(hypotheses.size()) +
                                " hypotheses and " + std::to_string(references.size()) +
                                " references; needed: equally many, at least one");
  }
}

/// Scores `samples` corpora drawn with replacement from `sentences`; the interval leaves out the
/// lowest and the highest fortieth of them.
template <size_t N, typename Score>
Interval bootstrap(const std::vector<Counts<N>>& sentences, Score score, int samples,
                   uint64_t seed) {
  if (samples < 2) {
    throw std::invalid_argument("metrics: " + std::to_string(samples) +
                                " bootstrap samples; needed: at least 2");
  }
  std::mt19937_64 random(seed);
  std::vector<double> scores(samples);
  for (double& value : scores) {
    Counts<N> sum{};
    for (size_t i = 0; i < sentences.size(); ++i) {
      // The high half of the product is uniform below size(), and the same on every platform.
      const auto drawn = static_cast<unsigned __int128>(random()) * sentences.size() >> 64;
      add(sum, sentences[static_cast<size_t>(drawn)]);
    }
    value = score(sum);
  }
  std::sort(scores.begin(), scores.end());
  const size_t tail = scores.size() / 40;
  return {.mean = std::accumulate(scores.begin(), scores.end(), 0.0) / samples,
          .half_width = 0.5 * (scores[scores.size() - 1 - tail] - scores[tail])};
}

}  // namespace headwise::metrics
