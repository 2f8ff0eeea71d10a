// BLEU and chrF as sacreBLEU computes them, and their bootstrap interval. Sentences are UTF-8; each
// malformed piece counts as one U+FFFD. Standard library and ICU only.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace headwise::metrics {

struct Options {
  bool lowercase = false;
};

struct Interval {
  double mean = 0, half_width = 0;  // 95 %
};

struct Bleu {
  double score = 0;  // 0 … 100
  std::array<double, 4> precisions{};
  double brevity_penalty = 1;
  int64_t hypothesis_length = 0, reference_length = 0;
  std::string signature;  // in sacreBLEU's words, version replaced by headwise's
};

struct Chrf {
  double score = 0;
  std::string signature;
};

/// Corpus BLEU, tokenizer 13a, exponential smoothing, one reference (Post 2018).
/// @throws std::invalid_argument if the two lists differ in length or are empty.
Bleu bleu(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references,
          const Options& options = {});

/// chrF2, character order 6, word order 0 (Popović 2015), as sacreBLEU's default.
Chrf chrf(const std::vector<std::string>& hypotheses, const std::vector<std::string>& references,
          const Options& options = {});

/// Bootstrap resampling (Koehn 2004) of sentences, `samples` times from `seed`.
/// @throws std::invalid_argument for fewer than 2 samples, and as the scores do.
Interval bleu_interval(const std::vector<std::string>& hypotheses,
                       const std::vector<std::string>& references, const Options& options,
                       int samples, uint64_t seed);
Interval chrf_interval(const std::vector<std::string>& hypotheses,
                       const std::vector<std::string>& references, const Options& options,
                       int samples, uint64_t seed);

/// The signature of a score that is given with an interval.
std::string signature_with_bootstrap(const std::string& signature, int samples, uint64_t seed);

}  // namespace headwise::metrics
