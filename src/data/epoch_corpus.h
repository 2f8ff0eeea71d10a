// The training pairs of each epoch: the same ones, with BPE-dropout cut into other pieces.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/data/batcher.h"
#include "src/data/corpus.h"
#include "src/data/subword.h"

namespace headwise::data {

/// Pairs whose pieces are a function of (pairs, models, train.seed, epoch): not of the epochs asked
/// for before, nor of threads. Without dropout they stay as they came, and nothing is kept besides.
class EpochCorpus {
 public:
  EpochCorpus() = default;
  /// `usual`: the pairs as encode(text, vocabularies, …) left them.
  /// @throws UserError for a dropout with a model that is not of kind "bpe".
  EpochCorpus(EncodedCorpus usual, ParallelText text, const Vocabularies& vocabularies,
              const config::Config& config);

  /// Counted from 0. The reference holds until the next call. Sampled pieces that would pass
  /// data.max_length are the usual ones instead.
  const EncodedCorpus& of_epoch(int64_t epoch);
  int64_t size() const { return corpus_.size(); }

 private:
  /// A side with dropout.
  struct Sampled {
    std::vector<Ids> EncodedCorpus::*side;
    Subword model;
    double dropout;
    std::vector<std::string> lines;
  };
  void sample(const Sampled& sampled, int64_t epoch);

  EncodedCorpus corpus_;
  std::vector<Sampled> sampled_;
  int64_t max_length_ = 0;
  uint64_t seed_ = 0;
};

}  // namespace headwise::data
