#include "src/data/batch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "src/data/batcher.h"

namespace headwise::data {
namespace {

Batch batch_of(const std::vector<std::pair<int64_t, int64_t>>& lengths) {
  EncodedCorpus corpus;
  for (const auto& [source, target] : lengths) {
    const auto id = static_cast<int32_t>(corpus.lines.size());
    corpus.source.emplace_back(source, 100 + id);
    corpus.target.emplace_back(target, 200 + id);
    corpus.lines.push_back(id + 1);
  }
  Batcher batcher(corpus, {.batch_tokens = 1 << 20, .seed = 1, .shuffle = false});
  return batcher.next();
}

int64_t tokens_of(const Batch& batch) {
  return static_cast<int64_t>(batch.source.tokens.size() + batch.target.tokens.size());
}

template <typename T>
void append(std::vector<T>& to, const std::vector<T>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

TEST(Twice, HalvesAreTheBatch) {
  const Batch batch = batch_of({{3, 4}, {9, 2}, {1, 1}, {5, 5}});
  const std::vector<Batch> halves = split(twice(batch), 2);
  ASSERT_EQ(halves.size(), 2u);
  for (const Batch& half : halves) {
    EXPECT_EQ(half.source.tokens, batch.source.tokens);
    EXPECT_EQ(half.source.positions, batch.source.positions);
    EXPECT_EQ(half.source.starts, batch.source.starts);
    EXPECT_EQ(half.target.tokens, batch.target.tokens);
    EXPECT_EQ(half.target.starts, batch.target.starts);
    EXPECT_EQ(half.labels, batch.labels);
    EXPECT_EQ(half.lines, batch.lines);
  }
  EXPECT_EQ(twice(batch).source.longest, batch.source.longest);
}

TEST(Split, PartsTogetherAreTheBatch) {
  const Batch batch = batch_of({{3, 4}, {9, 2}, {1, 1}, {5, 5}, {7, 20}, {2, 2}, {6, 1}});
  for (const int64_t parts : {1, 2, 3, 6, 7, 50}) {
    Batch whole;
    for (const Batch& part : split(batch, parts)) {
      ASSERT_GT(part.size(), 0);
      for (const auto& [side, joined] :
           {std::pair{&part.source, &whole.source}, std::pair{&part.target, &whole.target}}) {
        ASSERT_EQ(side->starts.size(), static_cast<size_t>(part.size()) + 1);
        EXPECT_EQ(side->starts.front(), 0);
        EXPECT_EQ(side->starts.back(), static_cast<int32_t>(side->tokens.size()));
        int64_t longest = 0;
        for (size_t b = 0; b + 1 < side->starts.size(); ++b) {
          const int32_t first = side->starts[b], length = side->starts[b + 1] - first;
          longest = std::max<int64_t>(longest, length);
          for (int32_t i = 0; i < length; ++i) EXPECT_EQ(side->positions[first + i], i);
          joined->starts.push_back(length);
        }
        EXPECT_EQ(side->longest, longest);
        append(joined->tokens, side->tokens);
      }
      EXPECT_EQ(part.labels.size(), part.target.tokens.size());
      append(whole.labels, part.labels);
      append(whole.lines, part.lines);
    }
    EXPECT_EQ(whole.source.tokens, batch.source.tokens);
    EXPECT_EQ(whole.target.tokens, batch.target.tokens);
    EXPECT_EQ(whole.labels, batch.labels);
    EXPECT_EQ(whole.lines, batch.lines);
    for (const auto& [joined, side] :
         {std::pair{&whole.source, &batch.source}, std::pair{&whole.target, &batch.target}}) {
      for (size_t b = 0; b + 1 < side->starts.size(); ++b) {
        EXPECT_EQ(joined->starts[b], side->starts[b + 1] - side->starts[b]);  // lengths
      }
    }
  }
}

TEST(Split, PartsHaveAboutEquallyManyTokens) {
  std::vector<std::pair<int64_t, int64_t>> lengths;
  for (int64_t i = 0; i < 200; ++i) lengths.emplace_back(3 + i * 7 % 11, 2 + i * 5 % 13);
  const Batch batch = batch_of(lengths);
  for (const int64_t parts : {2, 3, 8}) {
    const std::vector<Batch> shards = split(batch, parts);
    ASSERT_EQ(static_cast<int64_t>(shards.size()), parts);
    for (const Batch& shard : shards) {
      EXPECT_NEAR(static_cast<double>(tokens_of(shard)),
                  static_cast<double>(tokens_of(batch)) / static_cast<double>(parts), 30);
    }
  }
}

TEST(Split, OneLongSentenceIsAPartOfItsOwn) {
  const std::vector<Batch> shards = split(batch_of({{1, 1}, {90, 90}, {1, 1}}), 3);
  int64_t sentences = 0;
  for (const Batch& shard : shards) sentences += shard.size();
  EXPECT_EQ(sentences, 3);
}

}  // namespace
}  // namespace headwise::data
