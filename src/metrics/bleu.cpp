#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>

#include "src/metrics/corpus_scores.h"
#include "src/metrics/corpus_statistics.h"
#include "src/metrics/ngrams.h"
#include "src/metrics/signature.h"
#include "src/metrics/text.h"
#include "src/metrics/tokenizer_13a.h"

namespace headwise::metrics {

namespace {

constexpr size_t kOrders = 4;

// Lengths of hypothesis and reference, then matched n-grams, then n-grams of the hypothesis.
using BleuCounts = Counts<2 + 2 * kOrders>;
constexpr size_t kMatched = 2, kTotal = 2 + kOrders;

/// Turns sentences into token ids; equal tokens of one corpus have equal ids.
class Tokens {
 public:
  explicit Tokens(const Options& options) : options_(options) {}

  std::vector<uint32_t> operator()(std::string_view sentence) {
    std::u32string text = code_points(sentence);
    if (options_.lowercase) text = lower_case(text);
    while (!text.empty() && is_space(text.back())) text.pop_back();
    text = tokenize_13a(std::move(text));
    std::vector<uint32_t> ids;
    for (const std::u32string_view token : split(text)) {
      ids.push_back(ids_.try_emplace(std::u32string(token), static_cast<uint32_t>(ids_.size()))
                        .first->second);
    }
    return ids;
  }

 private:
  Options options_;
  std::unordered_map<std::u32string, uint32_t> ids_;
};

std::vector<BleuCounts> count(const std::vector<std::string>& hypotheses,
                              const std::vector<std::string>& references, const Options& options) {
  check_pairs(hypotheses, references);
  Tokens tokens(options);
  std::vector<BleuCounts> sentences(hypotheses.size());
  for (size_t i = 0; i < hypotheses.size(); ++i) {
    const std::vector<uint32_t> hypothesis = tokens(hypotheses[i]);
    const std::vector<uint32_t> reference = tokens(references[i]);
    BleuCounts& counts = sentences[i];
    counts[0] = static_cast<int64_t>(hypothesis.size());
    counts[1] = static_cast<int64_t>(reference.size());
    for (size_t n = 0; n < kOrders; ++n) {
      const auto order = static_cast<int64_t>(n) + 1;
      counts[kMatched + n] = common_ngrams(hypothesis, reference, order);
      counts[kTotal + n] = ngram_count(counts[0], order);
    }
  }
  return sentences;
}

double brevity_penalty(int64_t hypothesis_length, int64_t reference_length) {
  if (hypothesis_length >= reference_length) return 1;
  if (hypothesis_length == 0) return 0;
  return std::exp(1 -
                  static_cast<double>(reference_length) / static_cast<double>(hypothesis_length));
}

/// Exponential smoothing: the k-th order without a match counts 1/2^k matches. A corpus without any
/// match, or without any n-gram of some order, scores 0.
Bleu score_of(const BleuCounts& counts) {
  Bleu bleu;
  bleu.hypothesis_length = counts[0];
  bleu.reference_length = counts[1];
  bleu.brevity_penalty = brevity_penalty(counts[0], counts[1]);
  const auto* matched = counts.data() + kMatched;
  if (std::all_of(matched, matched + kOrders, [](int64_t n) { return n == 0; })) return bleu;
  double smoothing = 1, sum_of_logs = 0;
  for (size_t n = 0; n < kOrders; ++n) {
    const auto total = static_cast<double>(counts[kTotal + n]);
    if (total == 0) return bleu;
    if (matched[n] == 0) {
      smoothing *= 2;
      bleu.precisions[n] = 100 / (smoothing * total);
    } else {
      bleu.precisions[n] = 100 * static_cast<double>(matched[n]) / total;
    }
    sum_of_logs += std::log(bleu.precisions[n]);
  }
  bleu.score = bleu.brevity_penalty * std::exp(sum_of_logs / kOrders);
  return bleu;
}

}  // namespace

Bleu bleu(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references,
          const Options& options) {
  Bleu result = score_of(sum_of(count(hypotheses, references, options)));
  result.signature = signature_of(options, "eff:no|tok:13a|smooth:exp");
  return result;
}

Interval bleu_interval(const std::vector<std::string>& hypotheses,
                       const std::vector<std::string>& references, const Options& options,
                       int samples, uint64_t seed) {
  return bootstrap(
      count(hypotheses, references, options),
      [](const BleuCounts& counts) { return score_of(counts).score; }, samples, seed);
}

}  // namespace headwise::metrics
