#include "src/data/epoch_corpus.h"

#include <algorithm>

#include "tests/cpp/data/text_fixtures.h"

namespace headwise::data {
namespace {

using Lines = std::vector<std::string>;

/// 120 numbered lines; every tenth is blank on one side, every seventh is too long on the target's.
class EpochCorpusTest : public testing::Test {
 protected:
  EpochCorpusTest() {
    config_.data.max_length = 60;
    config_.subword.type = config::SubwordType::kBpe;
    config_.subword.vocabulary = 60;
    for (int i = 0; i < 120; ++i) {
      const std::string number = std::to_string(i);
      source_.push_back(i % 10 == 4 ? "" : "the quick brown fox sees number " + number);
      target_.push_back("der flinke braune fuchs sieht nummer " + number);
      if (i % 7 != 3) continue;
      for (int word = 0; word < 60; ++word) target_.back() += " x";
    }
    vocabularies_ = vocabularies(config::SubwordType::kBpe);
  }

  ParallelText text() const { return make_parallel(source_, target_, "text"); }
  Vocabularies vocabularies(config::SubwordType type) const {
    config::SubwordConfig subword = config_.subword;
    subword.type = type;
    return make_vocabularies(subword, text());
  }
  EncodedCorpus usual() const {
    return encode(text(), vocabularies_, {config_.data.max_length, 0}).corpus;
  }
  EpochCorpus make(double source_dropout, double target_dropout, int64_t seed = 1) {
    config_.subword.source_dropout = source_dropout;
    config_.subword.target_dropout = target_dropout;
    config_.train.seed = seed;
    return {usual(), text(), vocabularies_, config_};
  }

  config::Config config_;
  Lines source_, target_;
  Vocabularies vocabularies_;
};

void expect_equal(const EncodedCorpus& a, const EncodedCorpus& b) {
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.target, b.target);
  EXPECT_EQ(a.lines, b.lines);
}

TEST_F(EpochCorpusTest, WithoutDropoutEveryEpochIsAsItCame) {
  EpochCorpus corpus = make(0, 0);
  const EncodedCorpus expected = usual();
  ASSERT_GT(expected.size(), 80);
  ASSERT_LT(expected.size(), 100);
  EXPECT_EQ(corpus.size(), expected.size());
  const auto* pieces = corpus.of_epoch(0).source.data();
  for (const int64_t epoch : {0, 1, 7}) {
    expect_equal(corpus.of_epoch(epoch), expected);
    EXPECT_EQ(corpus.of_epoch(epoch).source.data(), pieces);  // nothing was copied
  }
}

TEST_F(EpochCorpusTest, EpochsDifferAndHoldTheSamePairs) {
  EpochCorpus corpus = make(0.2, 0.2);
  const EncodedCorpus expected = usual();
  EncodedCorpus before = expected;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const EncodedCorpus& now = corpus.of_epoch(epoch);
    EXPECT_NE(now.source, before.source);
    EXPECT_NE(now.target, before.target);
    ASSERT_EQ(now.lines, expected.lines);
    for (int64_t i = 0; i < now.size(); ++i) {
      EXPECT_EQ(vocabularies_.source.decode(now.source[i]), source_[now.lines[i] - 1]);
      EXPECT_EQ(vocabularies_.target.decode(now.target[i]), target_[now.lines[i] - 1]);
    }
    before = now;
  }
}

TEST_F(EpochCorpusTest, AnEpochIsAFunctionOfItsNumberAndTheSeed) {
  EpochCorpus walked = make(0.2, 0.3), jumped = make(0.2, 0.3), other = make(0.2, 0.3, 2);
  for (int64_t epoch = 0; epoch < 5; ++epoch) walked.of_epoch(epoch);
  expect_equal(walked.of_epoch(5), jumped.of_epoch(5));
  const EncodedCorpus fifth = jumped.of_epoch(5);
  EXPECT_NE(other.of_epoch(5).source, fifth.source);
  EXPECT_NE(other.of_epoch(4).source, fifth.source);
  expect_equal(walked.of_epoch(0), make(0.2, 0.3).of_epoch(0));
}

TEST_F(EpochCorpusTest, SidesAreIndependent) {
  EpochCorpus both = make(0.2, 0.3), source = make(0.2, 0), target = make(0, 0.3);
  for (const int64_t epoch : {0, 3}) {
    EXPECT_EQ(source.of_epoch(epoch).source, both.of_epoch(epoch).source);
    EXPECT_EQ(source.of_epoch(epoch).target, usual().target);
    EXPECT_EQ(target.of_epoch(epoch).target, both.of_epoch(epoch).target);
    EXPECT_EQ(target.of_epoch(epoch).source, usual().source);
  }
}

TEST_F(EpochCorpusTest, WhatBecomesTooLongKeepsItsUsualPieces) {
  size_t longest = 0;
  for (const Ids& ids : usual().source) longest = std::max(longest, ids.size());
  config_.data.max_length = static_cast<int64_t>(longest) + 3;  // room for an end and two more
  EpochCorpus corpus = make(0.15, 0.15);
  const EncodedCorpus expected = usual();
  ASSERT_GT(expected.size(), 50);
  const EncodedCorpus& sampled = corpus.of_epoch(0);
  EXPECT_EQ(sampled.lines, expected.lines);
  int64_t kept = 0, longer = 0;
  for (int64_t i = 0; i < expected.size(); ++i) {
    EXPECT_LT(sampled.source[i].size(), config_.data.max_length);
    EXPECT_LT(sampled.target[i].size(), config_.data.max_length);
    kept += sampled.source[i] == expected.source[i];
    longer += sampled.source[i].size() > expected.source[i].size();
  }
  EXPECT_GT(kept, expected.size() / 4);
  EXPECT_GT(longer, 0);
}

TEST_F(EpochCorpusTest, OtherModelsAreRefusedWithKeyKindAndRemedy) {
  const auto message = [&](double source_dropout, double target_dropout) {
    config_.subword.source_dropout = source_dropout;
    config_.subword.target_dropout = target_dropout;
    Vocabularies mixed = vocabularies_;
    mixed.target = vocabularies(config::SubwordType::kUnigram).target;
    return user_error([&] { EpochCorpus(usual(), text(), mixed, config_); });
  };
  for (const double source_dropout : {0.0, 0.1}) {
    EXPECT_EQ(message(source_dropout, 0.25),
              "subword.target_dropout = 0.25: found a subword model of type unigram; needed one of "
              "type bpe, whose merges can be left out, or subword.target_dropout = 0");
  }
}

}  // namespace
}  // namespace headwise::data
