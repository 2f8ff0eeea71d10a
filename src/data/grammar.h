// The embedded English -> Korean corpus: any number of sentence pairs from a seed, without a file.
// The language, its tables and the splits are described in docs/embedded_corpus.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headwise::data {

struct SentencePair {
  std::string source, target;
};

/// Which split a sentence belongs to is decided by its English text alone (`longer`: by its
/// length), so the splits are disjoint whatever their sizes and seeds.
enum class CorpusSplit { kTrain, kValid, kTest, kLonger };

/// Words of the longest sentence in the train, valid and test splits; `longer` starts above.
inline constexpr int64_t kLongestEmbeddedSentence = 20;

struct EmbeddedCorpus {
  std::vector<SentencePair> train, valid, test, longer;
};

/// The first `count` pairs of one split, no English sentence twice. More pairs of the same seed
/// begin with the same ones. Every second pair of `test` and `longer` holds a name or a number that
/// no training sentence of any seed holds.
/// @throws UserError if `count` is negative or larger than the grammar's short sentences allow.
std::vector<SentencePair> embedded_split(CorpusSplit split, int64_t count, uint64_t seed);

/// All four splits of one seed.
EmbeddedCorpus embedded_corpus(int64_t train_pairs, int64_t valid_pairs, int64_t test_pairs,
                               int64_t longer_pairs, uint64_t seed);

}  // namespace headwise::data
