#include <algorithm>
#include <string_view>

#include "src/metrics/corpus_scores.h"
#include "src/metrics/corpus_statistics.h"
#include "src/metrics/ngrams.h"
#include "src/metrics/signature.h"
#include "src/metrics/text.h"

namespace headwise::metrics {

namespace {

constexpr size_t kOrders = 6;

// For each order the n-grams of the hypothesis, of the reference, and those in common.
using ChrfCounts = Counts<3 * kOrders>;

std::vector<uint32_t> characters(std::string_view sentence, const Options& options) {
  std::u32string text = code_points(sentence);
  if (options.lowercase) text = lower_case(text);
  std::erase_if(text, is_space);
  return {text.begin(), text.end()};
}

std::vector<ChrfCounts> count(const std::vector<std::string>& hypotheses,
                              const std::vector<std::string>& references, const Options& options) {
  check_pairs(hypotheses, references);
  std::vector<ChrfCounts> sentences(hypotheses.size());
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    const std::vector<uint32_t> hypothesis = characters(hypotheses[i], options);
    const std::vector<uint32_t> reference = characters(references[i], options);
    for (size_t n = 0; n < kOrders; ++n) {
      const auto order = static_cast<int64_t>(n) + 1;
      int64_t* counts = sentences[i].data() + 3 * n;
      counts[1] = ngram_count(static_cast<int64_t>(reference.size()), order);
      // A reference too short for this order says nothing about the hypothesis.
      if (counts[1] == 0) continue;
      counts[0] = ngram_count(static_cast<int64_t>(hypothesis.size()), order);
      counts[2] = common_ngrams(hypothesis, reference, order);
    }
  }
  return sentences;
}

/// F2 of precision and recall, each averaged over the orders that both sides have.
double score_of(const ChrfCounts& counts) {
  constexpr double kBetaSquared = 4;
  double precision = 0, recall = 0;
  int orders = 0;
  for (size_t n = 0; n < kOrders; ++n) {
    const auto hypothesis = static_cast<double>(counts[3 * n]);
    const auto reference = static_cast<double>(counts[3 * n + 1]);
    const auto common = static_cast<double>(counts[3 * n + 2]);
    if (hypothesis == 0 || reference == 0) continue;
    precision += common / hypothesis;
    recall += common / reference;
    ++orders;
  }
  if (precision + recall == 0) return 0;
  precision /= orders;
  recall /= orders;
  return 100 * ((1 + kBetaSquared) * precision * recall / (kBetaSquared * precision + recall));
}

}  // namespace

Chrf chrf(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references,
          const Options& options) {
  return {.score = score_of(sum_of(count(hypotheses, references, options))),
          .signature = signature_of(options, "eff:yes|nc:6|nw:0|space:no")};
}

Interval chrf_interval(const std::vector<std::string>& hypotheses,
                       const std::vector<std::string>& references, const Options& options,
                       int samples, uint64_t seed) {
  return bootstrap(count(hypotheses, references, options), score_of, samples, seed);
}

}  // namespace headwise::metrics
