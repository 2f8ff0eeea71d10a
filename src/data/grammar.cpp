#include "src/data/grammar.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include "src/config/error.h"
#include "src/data/grammar_draw.h"
#include "src/data/grammar_names.h"
#include "src/data/grammar_random.h"
#include "src/data/grammar_sentence.h"

namespace headwise::data {
namespace {

using grammar::Pool;
using grammar::Random;

// Far above what any experiment asks for and far below what the grammar can give.
constexpr int64_t kMostPairs = 10'000'000;

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
  Random random(grammar::mix(grammar::mix(seed) ^ number));
  while (true) {
    SentencePair pair =
        draw_pair(random, unseen ? Pool::kHeldOut : Pool::kTraining, split == CorpusSplit::kLonger);
    if (split_of(pair.source) == split && (!unseen || grammar::holds_held_out(pair.source))) {
      return pair;
    }
  }
}

}  // namespace

std::vector<SentencePair> embedded_split(CorpusSplit split, int64_t count, uint64_t seed) {
  if (count < 0 || count > kMostPairs) {
    throw UserError(text_of("embedded corpus: 0 to ", kMostPairs, " pairs can be made, ", count,
                            " were asked for"));
  }
  std::vector<SentencePair> pairs;
  std::unordered_set<std::string> seen;
  const bool some_unseen = split == CorpusSplit::kTest || split == CorpusSplit::kLonger;
  for (int64_t index = 0; static_cast<int64_t>(pairs.size()) < count; ++index) {
    const bool unseen = some_unseen && pairs.size() % 2 == 1;
    SentencePair pair = draw_for(split, seed, index, unseen);
    if (seen.insert(pair.source).second) pairs.push_back(std::move(pair));
  }
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
