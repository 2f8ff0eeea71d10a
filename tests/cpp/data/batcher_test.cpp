#include "src/data/batcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <random>
#include <set>

#include "src/data/splitmix64.h"

namespace headwise::data {
namespace {

/// Pairs with lengths from 0 to `longest` whose ids tell the pair.
EncodedCorpus make_corpus(int64_t size, int64_t longest = 30, uint64_t seed = 5) {
  std::mt19937_64 random(seed);
  EncodedCorpus corpus;
  for (int64_t i = 0; i < size; ++i) {
    corpus.source.emplace_back(random() % (longest + 1), static_cast<int32_t>(10 + i));
    corpus.target.emplace_back(random() % (longest + 1), static_cast<int32_t>(100000 + i));
    corpus.lines.push_back(3 * i + 1);  // lines of the file were dropped in between
  }
  return corpus;
}

using Lines = std::vector<int64_t>;

/// Line numbers of all batches up to the end of the epoch the batcher is in.
std::vector<Lines> rest_of_epoch(Batcher& batcher) {
  std::vector<Lines> batches;
  const int64_t epoch = batcher.position().epoch;
  while (batcher.position().epoch == epoch) batches.push_back(batcher.next().lines);
  return batches;
}

Lines flat(const std::vector<Lines>& batches) {
  Lines all;
  for (const Lines& batch : batches) all.insert(all.end(), batch.begin(), batch.end());
  return all;
}

Lines sorted(Lines lines) {
  std::sort(lines.begin(), lines.end());
  return lines;
}

TEST(Batcher, EveryPairComesExactlyOncePerEpoch) {
  for (const int64_t size : {1, 2, 40, 1000, 9000, 20000}) {
    for (const bool shuffle : {true, false}) {
      const EncodedCorpus corpus = make_corpus(size);
      Batcher batcher(corpus, {.batch_tokens = 300, .seed = 3, .shuffle = shuffle});
      for (int epoch = 0; epoch < 3; ++epoch) {
        ASSERT_EQ(batcher.position().epoch, epoch);
        const int64_t expected = batcher.batches_in_epoch();
        const auto batches = rest_of_epoch(batcher);
        EXPECT_EQ(static_cast<int64_t>(batches.size()), expected);
        EXPECT_EQ(sorted(flat(batches)), corpus.lines);
      }
    }
  }
}

TEST(Batcher, BudgetsHoldUnlessOnePairAloneIsLarger) {
  EncodedCorpus corpus = make_corpus(3000, 60);
  for (int64_t i = 0; i < 3000; i += 10)
    corpus.source[i].resize(400);  // sources of very long pairs
  const int64_t budget = 100;
  Batcher batcher(corpus, {.batch_tokens = budget});
  int64_t labels = 0, batches = 0, alone = 0;
  while (batcher.position().epoch == 0) {
    const Batch batch = batcher.next();
    ASSERT_GE(batch.size(), 1);
    if (batch.size() > 1) {
      EXPECT_LE(static_cast<int64_t>(batch.labels.size()), budget);
      EXPECT_LE(static_cast<int64_t>(batch.source.tokens.size()), 2 * budget);
    } else {
      ++alone;
    }
    labels += static_cast<int64_t>(batch.labels.size());
    ++batches;
  }
  EXPECT_GE(alone, 300);
  EXPECT_GT(labels / batches, budget / 3);  // and batches are not needlessly small
}

TEST(Batcher, BatchesAreWellFilledAndOfSimilarLengths) {
  EncodedCorpus corpus = make_corpus(20000, 60);
  corpus.source = corpus.target;  // real translations are about as long as their sources
  Batcher batcher(corpus, {.batch_tokens = 2000});
  int64_t real = 0, padded = 0, batches = 0;
  while (batcher.position().epoch == 0) {
    const Batch batch = batcher.next();
    real += static_cast<int64_t>(batch.labels.size());
    padded += batch.size() * batch.target.longest;
    ++batches;
  }
  EXPECT_GT(static_cast<double>(real) / static_cast<double>(padded), 0.95);
  EXPECT_GT(real / batches, 2000 * 95 / 100);
}

TEST(Batcher, OrderIsAFunctionOfSeedAndEpochAlone) {
  const EncodedCorpus corpus = make_corpus(500);
  const BatcherOptions options{.batch_tokens = 100, .seed = 11};
  Batcher a(corpus, options), b(corpus, options);
  const auto first = rest_of_epoch(a), second = rest_of_epoch(a);
  EXPECT_NE(first, second);
  b.seek({1, 0});
  EXPECT_EQ(rest_of_epoch(b), second);
  b.seek({0, 0});
  EXPECT_EQ(rest_of_epoch(b), first);
  Batcher other(corpus, {.batch_tokens = 100, .seed = 12});
  EXPECT_NE(rest_of_epoch(other), first);
  // Epoch e of seed s is not epoch e - 1 of seed s + 1.
  EXPECT_NE(rest_of_epoch(other), second);
}

TEST(Batcher, BatchesComeInRandomOrderNotByLength) {
  const EncodedCorpus corpus = make_corpus(4000);
  Batcher batcher(corpus, {.batch_tokens = 100});
  std::vector<int64_t> lengths;
  while (batcher.position().epoch == 0) lengths.push_back(batcher.next().target.longest);
  int64_t rises = 0, falls = 0;
  for (size_t i = 1; i < lengths.size(); ++i) {
    rises += lengths[i] > lengths[i - 1];
    falls += lengths[i] < lengths[i - 1];
  }
  EXPECT_GT(std::min(rises, falls), static_cast<int64_t>(lengths.size()) / 3);
}

TEST(Batcher, ValidationOrderIsFixedAndSorted) {
  const EncodedCorpus corpus = make_corpus(300);
  Batcher batcher(corpus, {.batch_tokens = 50, .seed = 9, .shuffle = false});
  int64_t last = 0;
  Lines lines;
  while (batcher.position().epoch == 0) {
    const Batch batch = batcher.next();
    lines.insert(lines.end(), batch.lines.begin(), batch.lines.end());
    for (int64_t i = 0; i < batch.size(); ++i) {
      const int64_t length = batch.target.starts[i + 1] - batch.target.starts[i];
      EXPECT_GE(length, last);
      last = length;
    }
  }
  EXPECT_EQ(flat(rest_of_epoch(batcher)), lines);
}

// 40 sentences, small batches, 3 epochs, stopped after every possible number of batches.
TEST(Batcher, ResumingAnywhereGivesTheUninterruptedSequence) {
  const EncodedCorpus corpus = make_corpus(40);
  const BatcherOptions options{.batch_tokens = 60, .seed = 2};
  Batcher whole(corpus, options);
  std::vector<Lines> expected;
  std::vector<DataPosition> positions{whole.position()};
  while (whole.position().epoch < 3) {
    expected.push_back(whole.next().lines);
    positions.push_back(whole.position());
  }
  for (size_t stop = 0; stop < expected.size(); ++stop) {
    Batcher resumed(corpus, options);
    resumed.seek(positions[stop]);
    EXPECT_EQ(resumed.position().epoch, positions[stop].epoch);
    EXPECT_EQ(resumed.position().sentence, positions[stop].sentence);
    for (size_t i = stop; i < expected.size(); ++i) ASSERT_EQ(resumed.next().lines, expected[i]);
  }
}

TEST(Batcher, WithAnotherBudgetItGoesOnAtTheNextBatchBorder) {
  const EncodedCorpus corpus = make_corpus(30000, 10);
  Batcher saved(corpus, {.batch_tokens = 400, .seed = 4});
  std::set<int64_t> used;
  while (saved.position().sentence < 17000) {
    for (const int64_t line : saved.next().lines) used.insert(line);
  }
  Batcher resumed(corpus, {.batch_tokens = 200, .seed = 4});
  resumed.seek(saved.position());
  EXPECT_EQ(resumed.position().epoch, 0);
  EXPECT_GE(resumed.position().sentence, saved.position().sentence);
  EXPECT_LT(resumed.position().sentence, saved.position().sentence + 200);
  const Lines rest = flat(rest_of_epoch(resumed));
  // Only pairs of the current window (7500 pairs here) come twice or not at all.
  const auto twice =
      std::count_if(rest.begin(), rest.end(), [&](int64_t l) { return used.count(l); });
  EXPECT_LT(twice, 7500);
  std::set<int64_t> seen(rest.begin(), rest.end());
  EXPECT_EQ(seen.size(), rest.size());
  seen.insert(used.begin(), used.end());
  EXPECT_GT(seen.size(), 30000U - 7500U);
  EXPECT_EQ(sorted(flat(rest_of_epoch(resumed))), corpus.lines);  // the next epoch is whole again
}

TEST(Batcher, APositionBehindTheEndIsTheNextEpoch) {
  const EncodedCorpus corpus = make_corpus(20);
  Batcher batcher(corpus, {.batch_tokens = 60});
  for (const int64_t sentence : {20, 21, 1000000}) {  // the corpus may have shrunk
    batcher.seek({4, sentence});
    EXPECT_EQ(batcher.position().epoch, 5);
    EXPECT_EQ(batcher.position().sentence, 0);
    EXPECT_EQ(sorted(flat(rest_of_epoch(batcher))), corpus.lines);
  }
}

TEST(Batcher, LargestBatchIsTheMaximumOverTheEpoch) {
  const EncodedCorpus corpus = make_corpus(2000);
  Batcher batcher(corpus, {.batch_tokens = 150});
  const Batcher::Largest largest = batcher.largest_batch();
  Batcher::Largest seen;
  while (batcher.position().epoch == 0) {
    const Batch batch = batcher.next();
    seen.source_tokens =
        std::max(seen.source_tokens, static_cast<int64_t>(batch.source.tokens.size()));
    seen.target_tokens =
        std::max(seen.target_tokens, static_cast<int64_t>(batch.target.tokens.size()));
    seen.pairs = std::max(seen.pairs, batch.size());
  }
  EXPECT_EQ(largest.source_tokens, seen.source_tokens);
  EXPECT_EQ(largest.target_tokens, seen.target_tokens);
  EXPECT_EQ(largest.pairs, seen.pairs);
}

/// Each epoch has the same pairs in other pieces, as with BPE-dropout.
class Epochs {
 public:
  PairsOfEpoch pairs() {
    return [this](int64_t epoch) -> const EncodedCorpus& {
      asked_.push_back(epoch);
      return current_ = make_corpus(40, 30, 100 + static_cast<uint64_t>(epoch));
    };
  }
  const std::vector<int64_t>& asked() const { return asked_; }

 private:
  EncodedCorpus current_;
  std::vector<int64_t> asked_;
};

TEST(Batcher, EachEpochAsksForItsPairsOnce) {
  const BatcherOptions options{.batch_tokens = 60, .seed = 2};
  Epochs epochs;
  Batcher batcher(epochs.pairs(), options, {2, 0});
  for (int64_t epoch = 2; epoch < 5; ++epoch) {
    EXPECT_EQ(epochs.asked().back(), epoch);
    const EncodedCorpus corpus = make_corpus(40, 30, 100 + static_cast<uint64_t>(epoch));
    Batcher expected(corpus, options);
    expected.seek({epoch, 0});
    EXPECT_EQ(batcher.largest_batch().source_tokens, expected.largest_batch().source_tokens);
    EXPECT_EQ(batcher.batches_in_epoch(), expected.batches_in_epoch());
    while (expected.position().epoch == epoch) {
      const Batch batch = batcher.next(), wanted = expected.next();
      ASSERT_EQ(batch.lines, wanted.lines);
      ASSERT_EQ(batch.source.tokens, wanted.source.tokens);
      ASSERT_EQ(batch.labels, wanted.labels);
    }
  }
  EXPECT_EQ(epochs.asked(), (std::vector<int64_t>{2, 3, 4, 5}));
}

TEST(Batcher, StartingInTheMiddleGivesTheUninterruptedSequence) {
  const BatcherOptions options{.batch_tokens = 60, .seed = 2};
  Epochs epochs;
  Batcher whole(epochs.pairs(), options);
  while (whole.position().epoch < 3) {
    Epochs others;
    Batcher resumed(others.pairs(), options, whole.position());
    for (int i = 0; i < 2; ++i) whole.next();
    resumed.next();
    const DataPosition position = resumed.position();
    Epochs again;
    Batcher twice(again.pairs(), options, position);
    EXPECT_EQ(twice.next().labels, resumed.next().labels);
    EXPECT_EQ(twice.position().sentence, whole.position().sentence);
    EXPECT_EQ(twice.position().epoch, whole.position().epoch);
  }
}

TEST(Batcher, ImpossibleArgumentsAreRefused) {
  const EncodedCorpus empty, corpus = make_corpus(3);
  EXPECT_THROW(Batcher(empty, {}), std::invalid_argument);
  EXPECT_THROW(Batcher(corpus, {.batch_tokens = 0}), std::invalid_argument);
  EncodedCorpus uneven = corpus;
  uneven.target.pop_back();
  EXPECT_THROW(Batcher(uneven, {}), std::invalid_argument);
  EXPECT_THROW(Batcher(Epochs().pairs(), {}, {-1, 0}), std::invalid_argument);
  Batcher batcher(corpus, {});
  EXPECT_THROW(batcher.seek({-1, 0}), std::invalid_argument);
  EXPECT_THROW(batcher.seek({0, -1}), std::invalid_argument);
}

TEST(Pack, LaysOutSourceTargetAndLabels) {
  EncodedCorpus corpus;
  corpus.source = {{11, 12, 13}, {}, {14}};
  corpus.target = {{21}, {22, 23}, {}};
  corpus.lines = {5, 7, 9};
  const BatcherOptions options{.source_eos = 3, .target_bos = 62, .target_eos = 63};
  const Batch batch = pack(corpus, {1, 0, 2}, options);
  EXPECT_EQ(batch.lines, (Lines{7, 5, 9}));
  EXPECT_EQ(batch.source.tokens, (Lines{3, 11, 12, 13, 3, 14, 3}));
  EXPECT_EQ(batch.source.positions, (Lines{0, 0, 1, 2, 3, 0, 1}));
  EXPECT_EQ(batch.source.starts, (std::vector<int32_t>{0, 1, 5, 7}));
  EXPECT_EQ(batch.source.longest, 4);
  EXPECT_EQ(batch.target.tokens, (Lines{62, 22, 23, 62, 21, 62}));
  EXPECT_EQ(batch.labels, (Lines{22, 23, 63, 21, 63, 63}));
  EXPECT_EQ(batch.target.positions, (Lines{0, 1, 2, 0, 1, 0}));
  EXPECT_EQ(batch.target.starts, (std::vector<int32_t>{0, 3, 5, 6}));
  EXPECT_EQ(batch.target.longest, 3);
}

// First outputs for seed 1234567 as published with the reference implementation (Vigna,
// prng.di.unimi.it).
TEST(SplitMix64, GivesThePublishedNumbers) {
  SplitMix64 random(1234567);
  EXPECT_EQ(random.next(), 6457827717110365317ULL);
  EXPECT_EQ(random.next(), 3203168211198807973ULL);
  EXPECT_EQ(random.next(), 9817491932198370423ULL);
}

TEST(SplitMix64, ShufflesUniformly) {
  SplitMix64 random(1);
  std::map<std::vector<int>, int> counts;
  const int draws = 24000;
  for (int i = 0; i < draws; ++i) {
    std::vector<int> values{0, 1, 2, 3};
    shuffle(values, random);
    ++counts[values];
  }
  ASSERT_EQ(counts.size(), 24U);
  double chi_square = 0;  // 23 degrees of freedom; 49.7 is passed once in a thousand
  for (const auto& [order, count] : counts)
    chi_square += (count - 1000.0) * (count - 1000.0) / 1000;
  EXPECT_LT(chi_square, 49.7);
}

TEST(SplitMix64, BelowReachesTheWholeRange) {
  SplitMix64 random(3);
  EXPECT_EQ(random.below(1), 0U);
  const uint64_t big = (uint64_t{1} << 63) + 1;
  for (int i = 0; i < 100; ++i) EXPECT_LT(random.below(big), big);
}

}  // namespace
}  // namespace headwise::data
