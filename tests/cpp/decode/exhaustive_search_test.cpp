// A beam wide enough to hold everything must find what writing out every possible output finds.
#include <algorithm>
#include <cmath>
#include <ostream>

#include "tests/cpp/decode/history_model.h"

namespace headwise::decode {
namespace {

constexpr int32_t kBos = 0, kEos = 1;

/// Every output there is, by plain recursion over all token sequences.
class Enumeration {
 public:
  Enumeration(NextToken model, int64_t sentence, const SearchRequest& request,
              const SearchOptions& options)
      : model_(std::move(model)), sentence_(sentence), request_(request), options_(options) {
    extend(request.prefix, 0, 0.0);
    std::sort(all.begin(), all.end(),
              [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
  }

  std::vector<Hypothesis> all;

 private:
  void extend(const Ids& ids, int64_t predicted, double sum) {
    if (predicted == request_.max_length) {
      add(ids, predicted, sum, false);
      return;
    }
    const std::vector<float> row = model_(sentence_, ids);
    for (int32_t id = 0; id < static_cast<int32_t>(row.size()); ++id) {
      if (std::count(options_.forbidden.begin(), options_.forbidden.end(), id)) continue;
      if (id == kEos) {
        if (predicted >= options_.min_length) add(ids, predicted + 1, sum + row[id], true);
        continue;
      }
      Ids longer = ids;
      longer.push_back(id);
      extend(longer, predicted + 1, sum + row[id]);
    }
  }

  void add(const Ids& ids, int64_t length, double sum, bool finished) {
    all.push_back({ids, sum, sum / std::pow(length, options_.length_penalty), finished});
  }

  NextToken model_;
  int64_t sentence_;
  const SearchRequest& request_;
  const SearchOptions& options_;
};

struct Case {
  double length_penalty;
  Ids prefix;
  int64_t min_length;
  int64_t vocabulary;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << "penalty " << c.length_penalty << ", prefix of " << c.prefix.size() << ", min_length "
       << c.min_length << ", " << c.vocabulary << " tokens";
}

class ExhaustiveSearch : public testing::TestWithParam<Case> {};

TEST_P(ExhaustiveSearch, FullWidthBeamFindsTheBestOfAllOutputs) {
  const Case& c = GetParam();
  SearchOptions options{.beam = 700,
                        .length_penalty = c.length_penalty,
                        .nbest = 1,
                        .min_length = c.min_length,
                        .bos = kBos,
                        .eos = kEos,
                        .forbidden = {kBos}};
  const SearchRequest request{.max_length = 5, .prefix = c.prefix};
  for (uint32_t seed = 0; seed < 10; ++seed) {
    const NextToken model = random_model(c.vocabulary, seed);
    const auto all = Enumeration(model, 0, request, options).all;
    for (const int64_t nbest : {1, 6}) {  // with one output wanted the search may stop early
      options.nbest = nbest;
      RecordingStep step(model, kBos, kEos);
      const auto found = search(step.function(), {request}, options).at(0);
      ASSERT_EQ(static_cast<int64_t>(found.size()), nbest);
      for (size_t i = 0; i < found.size(); ++i) {
        EXPECT_EQ(found[i].ids, all[i].ids) << "seed " << seed << " rank " << i;
        EXPECT_EQ(found[i].finished, all[i].finished);
        EXPECT_DOUBLE_EQ(found[i].log_probability, all[i].log_probability);
        EXPECT_DOUBLE_EQ(found[i].score, all[i].score);
      }
    }
  }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  for (const double penalty : {0.0, 0.6, 1.0, 2.0, -0.5}) {
    for (const Ids& prefix : {Ids{}, Ids{2}, Ids{3, 2, 3}}) {
      for (const int64_t min_length : {0, 2}) {
        all.push_back({penalty, prefix, min_length, min_length == 0 ? 5 : 4});
      }
    }
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(PenaltyPrefixMinimum, ExhaustiveSearch, testing::ValuesIn(cases()));

TEST(ExhaustiveSearch, StopsBeforeTheLimitWhenNothingCanImprove) {
  // The end token has 0.9 at once: after it every longer sum is lower, and without a length penalty
  // no length can make up for it.
  RecordingStep step(fixed_model({0.0, 0.9, 0.05, 0.05}), kBos, kEos);
  const SearchOptions options{
      .beam = 4, .length_penalty = 0, .bos = kBos, .eos = kEos, .forbidden = {}};
  const auto found = search(step.function(), {{.max_length = 50, .prefix = {}}}, options).at(0);
  EXPECT_EQ(step.calls.size(), 1u);
  EXPECT_TRUE(found.at(0).ids.empty());
}

TEST(ExhaustiveSearch, BeamLargerThanEverythingReturnsEverything) {
  const SearchOptions options{.beam = 1'000'000'000'000,
                              .nbest = 1'000'000'000'000,
                              .bos = kBos,
                              .eos = kEos,
                              .forbidden = {kBos}};
  const SearchRequest request{.max_length = 3, .prefix = {}};
  const NextToken model = random_model(4, 5);
  RecordingStep step(model, kBos, kEos);
  const auto found = search(step.function(), {request}, options).at(0);
  const auto all = Enumeration(model, 0, request, options).all;
  ASSERT_EQ(found.size(), 1u + 2 + 4 + 8);  // ended after 0, 1, 2 pieces; cut off after 3
  double total = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].ids, all.at(i).ids);
    total += std::exp(found[i].log_probability);
  }
  EXPECT_LT(total, 1.0);  // the rest went to the forbidden start token
}

}  // namespace
}  // namespace headwise::decode
