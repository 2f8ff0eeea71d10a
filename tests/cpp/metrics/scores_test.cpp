// Scores that can be computed by hand, and properties. tests/python/test_metrics.py compares the
// program with sacreBLEU.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <random>
#include <stdexcept>

#include "src/metrics/corpus_scores.h"
#include "src/metrics/ngrams.h"

namespace headwise::metrics {
namespace {

using Lines = std::vector<std::string>;

const Lines kHypotheses{"The cat sat on the mat.", "A dog barks at two men.", "It is 3.5 m long"};
const Lines kReferences{"the cat sits on the mat.", "A dog barks at the men!", "it is 3.5 m wide"};

TEST(Bleu, IdenticalTextScoresHundred) {
  for (const bool lowercase : {false, true}) {
    const Bleu score = bleu(kHypotheses, kHypotheses, {.lowercase = lowercase});
    EXPECT_NEAR(score.score, 100, 1e-9);
    for (const double precision : score.precisions) EXPECT_EQ(precision, 100);
    EXPECT_NEAR(chrf(kHypotheses, kHypotheses, {.lowercase = lowercase}).score, 100, 1e-9);
  }
}

TEST(Bleu, ShortHypothesisIsPenalised) {
  const Bleu score = bleu({"a b c d"}, {"a b c d e f g h"});
  EXPECT_NEAR(score.brevity_penalty, std::exp(-1.0), 1e-12);
  EXPECT_NEAR(score.score, 100 * std::exp(-1.0), 1e-9);
  EXPECT_EQ(score.hypothesis_length, 4);
  EXPECT_EQ(score.reference_length, 8);
  EXPECT_EQ(bleu({"a b c d e f g h"}, {"a b c d"}).brevity_penalty, 1);
}

TEST(Bleu, OrdersWithoutAMatchAreSmoothed) {
  // 2 of 4, 1 of 3, 1/2 of 2, 1/4 of 1.
  const Bleu score = bleu({"a b x y"}, {"a b c d"});
  EXPECT_NEAR(score.precisions[2], 25, 1e-12);
  EXPECT_NEAR(score.precisions[3], 25, 1e-12);
  EXPECT_NEAR(score.score, 100 * std::pow(1 / 2.0 * 1 / 3.0 * 1 / 4.0 * 1 / 4.0, 0.25), 1e-9);
}

TEST(Bleu, AMatchCountsOnlyAsOftenAsTheReferenceHasIt) {
  EXPECT_EQ(bleu({"the the the the"}, {"the cat is on the mat"}).precisions[0], 50);
}

TEST(Bleu, CountsAreSummedOverTheCorpus) {
  const Bleu score = bleu({"a b c d", "x x x x x x"}, {"a b c d", "y y y y y y"});
  EXPECT_NEAR(score.precisions[0], 100 * 4 / 10.0, 1e-12);
  EXPECT_NEAR(score.precisions[3], 100 * 1 / 4.0, 1e-12);
}

TEST(Scores, NothingToCompareScoresZero) {
  const std::vector<std::pair<Lines, Lines>> corpora{{{""}, {"a b c d"}},
                                                     {{"a b c d"}, {""}},
                                                     {{""}, {""}},
                                                     {{"a b c d"}, {"e f"}},
                                                     {{" \t", ""}, {"a", "b"}}};
  for (const auto& [hypotheses, references] : corpora) {
    EXPECT_EQ(bleu(hypotheses, references).score, 0);
    EXPECT_EQ(chrf(hypotheses, references).score, 0);
  }
  EXPECT_EQ(bleu({""}, {"a"}).brevity_penalty, 0);
  EXPECT_EQ(bleu({"one two three"}, {"one two three"}).score, 0);  // there is no 4-gram
}

TEST(Scores, CaseIsKeptUnlessAsked) {
  EXPECT_EQ(bleu({"A B C D"}, {"a b c d"}).score, 0);
  EXPECT_EQ(chrf({"ABCD"}, {"abcd"}).score, 0);
  EXPECT_NEAR(bleu({"ÀÉ Σ C D"}, {"àé σ c d"}, {.lowercase = true}).score, 100, 1e-9);
  EXPECT_NEAR(chrf({"ÀÉ Σ C D"}, {"àé σ c d"}, {.lowercase = true}).score, 100, 1e-9);
}

TEST(Chrf, AveragesTheOrdersBothSidesHave) {
  // 1-grams 2 of 2 and 2 of 3, 2-grams 1 of 1 and 1 of 2; no 3-gram in the hypothesis.
  const double recall = (2 / 3.0 + 1 / 2.0) / 2;
  EXPECT_NEAR(chrf({"a b"}, {"ab\u3000c"}).score, 100 * 5 * recall / (4 + recall), 1e-9);
}

TEST(Scores, SignaturesSayHowTheScoreWasMade) {
  const std::string version = "|version:headwise-" HEADWISE_VERSION;
  EXPECT_EQ(bleu({"a"}, {"a"}).signature, "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp" + version);
  const std::string signature = chrf({"a"}, {"a"}, {.lowercase = true}).signature;
  EXPECT_EQ(signature, "nrefs:1|case:lc|eff:yes|nc:6|nw:0|space:no" + version);
  EXPECT_EQ(signature_with_bootstrap(signature, 1000, 7),
            "nrefs:1|bs:1000|seed:7|case:lc|eff:yes|nc:6|nw:0|space:no" + version);
}

TEST(Interval, OnePairHasNoSpread) {
  const Lines hypothesis{"a b x y"}, reference{"a b c d"};
  const Interval interval = bleu_interval(hypothesis, reference, {}, 50, 1);
  EXPECT_NEAR(interval.mean, bleu(hypothesis, reference).score, 1e-9);
  EXPECT_EQ(interval.half_width, 0);
}

TEST(Interval, LeavesOutAFortiethOnEachSide) {
  // chrF of a drawn pair of sentences is 0, middle or 100 with 1/4, 1/2, 1/4: the middle 95 % of
  // many samples reaches from 0 to 100.
  const Lines hypotheses{"abcdefgh", "stuvwxyz"}, references{"abcdefgh", "ABCDEFGH"};
  const Interval interval = chrf_interval(hypotheses, references, {}, 4000, 3);
  EXPECT_NEAR(interval.half_width, 50, 1e-9);
  EXPECT_NEAR(interval.mean, 0.5 * chrf(hypotheses, references).score + 0.25 * 100, 2);
}

TEST(Interval, DependsOnTheSeedAlone) {
  const auto run = [](uint64_t seed) {
    return bleu_interval(kHypotheses, kReferences, {}, 200, seed).mean;
  };
  EXPECT_EQ(run(1), run(1));
  EXPECT_NE(run(1), run(2));
}

TEST(Scores, ListsThatDoNotFitAreRefused) {
  EXPECT_THROW(bleu({"a", "b"}, {"a"}), std::invalid_argument);
  EXPECT_THROW(chrf({}, {}), std::invalid_argument);
  EXPECT_THROW(bleu_interval({"a"}, {"a"}, {}, 1, 0), std::invalid_argument);
  EXPECT_THROW(chrf_interval({"a"}, {}, {}, 10, 0), std::invalid_argument);
}

TEST(Ngrams, CommonOnesEqualThoseOfCountTables) {
  std::mt19937 random(1);
  for (int round = 0; round < 300; ++round) {
    const auto draw = [&random] {
      std::vector<uint32_t> symbols(random() % 12);
      for (uint32_t& symbol : symbols) symbol = random() % 3;
      return symbols;
    };
    const std::vector<uint32_t> a = draw(), b = draw();
    for (int64_t order = 1; order <= 6; ++order) {
      const auto table = [order](const std::vector<uint32_t>& symbols) {
        std::map<std::vector<uint32_t>, int64_t> counts;
        for (auto end = symbols.begin(); end != symbols.end(); ++end) {
          if (end - symbols.begin() + 1 >= order) ++counts[{end + 1 - order, end + 1}];
        }
        return counts;
      };
      int64_t expected = 0;
      auto of_b = table(b);
      for (const auto& [ngram, count] : table(a)) expected += std::min(count, of_b[ngram]);
      EXPECT_EQ(common_ngrams(a, b, order), expected);
    }
  }
}

}  // namespace
}  // namespace headwise::metrics
