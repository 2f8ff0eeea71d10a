// The embedded English -> Korean corpus: any number of sentence pairs from a seed, without a file.
// The language, its tables and the splits are described in docs/embedded_corpus.md.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

namespace headwise::data {

struct SentencePair {
  std::string source, target;
};

/// Which split a sentence belongs to is decided by its English text alone (longer: by its length),
/// so the splits are disjoint whatever their sizes and seeds.
enum class CorpusSplit { kTrain, kValid, kTest, kLonger };

/// Words of the longest sentence in the train, valid and test splits; longer starts above.
inline constexpr int64_t kLongestEmbeddedSentence = 20;

/// Far above what any experiment asks for and far below what the grammar can give.
inline constexpr int64_t kMostEmbeddedPairs = 10'000'000;

/// The pairs of one split, one after another, no English sentence twice: a function of split and
/// seed. Every second pair of test and longer holds a name or a number that no training sentence
/// of any seed holds.
class EmbeddedStream {
 public:
  EmbeddedStream(CorpusSplit split, uint64_t seed) : split_(split), seed_(seed) {}
  SentencePair next();

 private:
  CorpusSplit split_;
  uint64_t seed_;
  int64_t drawn_ = 0;
  std::unordered_set<std::string> given_;
};

/// The first `count` pairs of a stream.
/// @throws UserError if `count` is negative or above kMostEmbeddedPairs.
std::vector<SentencePair> embedded_split(CorpusSplit split, int64_t count, uint64_t seed);

struct EmbeddedCorpus {
  std::vector<SentencePair> train, valid, test, longer;
};

/// All four splits of one seed.
EmbeddedCorpus embedded_corpus(int64_t train_pairs, int64_t valid_pairs, int64_t test_pairs,
                               int64_t longer_pairs, uint64_t seed);

}  // namespace headwise::data
