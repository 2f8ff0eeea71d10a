#include "src/data/grammar.h"

#include <algorithm>
#include <optional>

#include "src/config/error.h"
#include "src/data/grammar_draw.h"
#include "src/data/grammar_names.h"
#include "src/data/grammar_random.h"
#include "src/data/grammar_sentence.h"

namespace headwise::data {
namespace {

using grammar::Pool;
using grammar::Random;

int64_t words_in(const std::string& text) {
  return 1 + static_cast<int64_t>(std::ranges::count(text, ' '));
}

constexpr int64_t kLongestOfAll = 2 * kLongestEmbeddedSentence;

// One sentence in forty each for validation and test: enough for any use, little lost to training.
std::optional<CorpusSplit> split_of(const std::string& source) {
  const int64_t words = words_in(source);
  if (words > kLongestOfAll) return std::nullopt;
  if (words > kLongestEmbeddedSentence) return CorpusSplit::kLonger;
  switch (grammar::text_hash(source) % 40) {
    case 0:
      return CorpusSplit::kTest;
    case 1:
      return CorpusSplit::kValid;
    default:
      return CorpusSplit::kTrain;
  }
}

SentencePair draw_pair(Random& random, Pool pool, bool longer) {
  const grammar::Sentence sentence = grammar::draw_sentence(random, pool, longer);
  return {grammar::to_english(sentence), grammar::to_korean(sentence)};
}

// A function of its arguments alone. `unseen`: names and numbers come from the held-out pool and
// there is at least one of them.
SentencePair draw_for(CorpusSplit split, uint64_t seed, int64_t index, bool unseen) {
  const auto number = static_cast<uint64_t>(index) * 4 + static_cast<uint64_t>(split);
  Random random(mix64(mix64(seed) ^ number));
  while (true) {
    SentencePair pair =
        draw_pair(random, unseen ? Pool::kHeldOut : Pool::kTraining, split == CorpusSplit::kLonger);
    if (split_of(pair.source) == split && (!unseen || grammar::holds_held_out(pair.source))) {
      return pair;
    }
  }
}

}  // namespace

SentencePair EmbeddedStream::next() {
  const bool some_unseen = split_ == CorpusSplit::kTest || split_ == CorpusSplit::kLonger;
  while (true) {
    const bool unseen = some_unseen && given_.size() % 2 == 1;
    SentencePair pair = draw_for(split_, seed_, drawn_++, unseen);
    if (given_.insert(pair.source).second) return pair;
  }
}

std::vector<SentencePair> embedded_split(CorpusSplit split, int64_t count, uint64_t seed) {
  if (count < 0 || count > kMostEmbeddedPairs) {
    throw UserError(text_of("embedded corpus: 0 to ", kMostEmbeddedPairs, " pairs can be made, ",
                            count, " were asked for"));
  }
  EmbeddedStream stream(split, seed);
  std::vector<SentencePair> pairs;
  pairs.reserve(static_cast<size_t>(count));
  while (static_cast<int64_t>(pairs.size()) < count) pairs.push_back(stream.next());
  return pairs;
}

EmbeddedCorpus embedded_corpus(int64_t train_pairs, int64_t valid_pairs, int64_t test_pairs,
                               int64_t longer_pairs, uint64_t seed) {
  return {embedded_split(CorpusSplit::kTrain, train_pairs, seed),
          embedded_split(CorpusSplit::kValid, valid_pairs, seed),
          embedded_split(CorpusSplit::kTest, test_pairs, seed),
          embedded_split(CorpusSplit::kLonger, longer_pairs, seed)};
}

}  // namespace headwise::data
