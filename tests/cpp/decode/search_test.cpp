// The rules of search(), one by one, on models small enough to follow by hand.
#include "src/decode/search.h"

#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>
#include <string>

#include "tests/cpp/decode/history_model.h"

namespace headwise::decode {
namespace {

constexpr int32_t kBos = 2, kEos = 3;
constexpr float kNever = -std::numeric_limits<float>::infinity();

SearchOptions options_of(int64_t beam, double length_penalty = 1.0, int64_t nbest = 1) {
  return {.beam = beam,
          .length_penalty = length_penalty,
          .nbest = nbest,
          .bos = kBos,
          .eos = kEos,
          .forbidden = {kBos}};
}

std::vector<Hypothesis> search_one(const NextToken& model, const SearchOptions& options,
                                   const SearchRequest& request) {
  RecordingStep step(model, options.bos, options.eos);
  return search(step.function(), {request}, options).at(0);
}

void expect_same(const Hypothesis& a, const Hypothesis& b) {
  EXPECT_EQ(a.ids, b.ids);
  EXPECT_EQ(a.finished, b.finished);
  EXPECT_DOUBLE_EQ(a.log_probability, b.log_probability);
  EXPECT_DOUBLE_EQ(a.score, b.score);
}

TEST(Search, BeamOfOneTakesTheBestTokenOfEachStep) {
  for (uint32_t seed = 0; seed < 30; ++seed) {
    const NextToken model = random_model(6, seed);
    Ids expected;
    double sum = 0;
    bool finished = false;
    while (!finished && expected.size() < 8) {
      std::vector<float> row = model(0, expected);
      row[kBos] = kNever;
      const auto best =
          static_cast<int32_t>(std::max_element(row.begin(), row.end()) - row.begin());
      sum += row[best];
      finished = best == kEos;
      if (!finished) expected.push_back(best);
    }
    const Hypothesis found =
        search_one(model, options_of(1), {.max_length = 8, .prefix = {}}).at(0);
    expect_same(found, {expected, sum, sum / (expected.size() + finished), finished});
  }
}

TEST(Search, SentencesOfABatchDoNotInfluenceEachOther) {
  // Different limits and prefixes: sentences leave the batch at different steps.
  std::vector<SearchRequest> requests;
  for (int64_t i = 0; i < 9; ++i) requests.push_back({.max_length = i, .prefix = Ids(i % 4, 4)});
  for (const int64_t beam : {1, 2, 5}) {
    const SearchOptions options = options_of(beam, 0.6, std::min<int64_t>(beam, 3));
    const NextToken model = random_model(6, 7);
    RecordingStep step(model, kBos, kEos);
    const auto together = search(step.function(), requests, options);
    ASSERT_EQ(together.size(), requests.size());
    for (size_t i = 0; i < requests.size(); ++i) {
      const NextToken this_sentence = [&](int64_t, const Ids& history) {
        return model(static_cast<int64_t>(i), history);
      };
      const auto alone = search_one(this_sentence, options, requests[i]);
      ASSERT_EQ(together[i].size(), alone.size());
      for (size_t rank = 0; rank < alone.size(); ++rank) {
        expect_same(together[i][rank], alone[rank]);
      }
    }
  }
}

TEST(Search, FinishedSentencesLeaveTheBatch) {
  // Sentence s ends after s pieces: its rows must not be passed again.
  const NextToken model = [](int64_t sentence, const Ids& history) {
    std::vector<float> row(6, kNever);
    row[static_cast<int64_t>(history.size()) < sentence ? 4 : kEos] = 0.0f;
    return row;
  };
  for (const int64_t beam : {1, 3}) {
    RecordingStep step(model, kBos, kEos);
    const auto found = search(step.function(),
                              {{.max_length = 9, .prefix = {}},
                               {.max_length = 9, .prefix = {}},
                               {.max_length = 0, .prefix = {}},
                               {.max_length = 9, .prefix = {}}},
                              options_of(beam));
    std::vector<std::vector<int64_t>> sentences;
    for (const auto& rows : step.calls) {
      sentences.emplace_back();
      for (const auto& row : rows) sentences.back().push_back(row.sentence);
    }
    const std::vector<std::vector<int64_t>> expected{{0, 1, 3}, {1, 3}, {3}, {3}};
    EXPECT_EQ(sentences, expected);
    EXPECT_EQ(found[3][0].ids, (Ids{4, 4, 4}));
  }
}

TEST(Search, CrossingBeamsKeepTheirOwnPast) {
  // After the first step the best row is (4), the second (5); then all good children come from (5).
  // The model sees histories, so a row that got the other's past would never reach its end.
  const NextToken model = [](int64_t, const Ids& history) {
    std::vector<float> row(7, -20.0f);
    if (history.empty()) {
      row[4] = std::log(0.6f), row[5] = std::log(0.4f);
    } else if (history == Ids{5}) {
      row[6] = std::log(0.5f), row[4] = std::log(0.3f), row[5] = std::log(0.2f);
    } else if (history == Ids{5, 4}) {
      row[kEos] = 0.0f;
    } else if (history == Ids{4}) {
      for (float& value : row) value = std::log(1 / 70.0f);
    }
    return row;
  };
  const auto found = search_one(model, options_of(3, 0.0), {.max_length = 3, .prefix = {}});
  EXPECT_EQ(found.at(0).ids, (Ids{5, 4}));
  EXPECT_NEAR(found[0].log_probability, std::log(0.4 * 0.3), 1e-6);
}

TEST(Search, AnEndTokenEndsTheHypothesis) {  // 0.6 for the end token at every step
  RecordingStep step(fixed_model({0.2, 0.2, 0.0, 0.6}), kBos, kEos);
  const auto found =
      search(step.function(), {{.max_length = 6, .prefix = {}}}, options_of(4, 0.0, 4)).at(0);
  ASSERT_EQ(found.size(), 4u);
  std::set<Ids> different;
  for (const Hypothesis& hypothesis : found) {
    EXPECT_TRUE(hypothesis.finished);
    EXPECT_EQ(std::count(hypothesis.ids.begin(), hypothesis.ids.end(), kEos), 0);
    const double expected =
        std::log(0.6) + static_cast<double>(hypothesis.ids.size()) * std::log(0.2);
    EXPECT_NEAR(hypothesis.log_probability, expected, 1e-6);
    different.insert(hypothesis.ids);
  }
  EXPECT_EQ(different.size(), 4u);
  for (const auto& rows : step.calls) {
    for (const auto& row : rows) {
      EXPECT_EQ(std::count(row.history.begin(), row.history.end(), kEos), 0);
    }
  }
}

TEST(Search, StopsAfterSoManyFinishedHypotheses) {
  const auto steps_of = [](const NextToken& model, const SearchOptions& options) {
    RecordingStep step(model, kBos, kEos);
    search(step.function(), {{.max_length = 9, .prefix = {}}}, options);
    return step.calls.size();
  };
  const NextToken often = fixed_model({0.2, 0.2, 0.0, 0.6});  // one row ends, then two, then four
  SearchOptions options = options_of(4, 3.0);                 // longer is better
  EXPECT_EQ(steps_of(often, options), 9u);
  const std::vector<size_t> expected = {1, 2, 2, 3, 3, 3};
  for (int64_t count = 1; count <= 6; ++count) {
    options.stop_after = count;
    EXPECT_EQ(steps_of(often, options), expected[size_t(count - 1)]) << count;
  }
  // An end that is not among the beam's best does not count, though it may be the output.
  const NextToken rarely = fixed_model({0.45, 0.45, 0.0, 0.1});
  options = options_of(2, 3.0);
  options.stop_after = 1;
  EXPECT_EQ(steps_of(rarely, options), 9u);
}

TEST(Search, FullNormalisationMakesEqualTokensTie) {
  // Every token has -1: the mean is -1 at every length, finished or cut off, whatever the prefix.
  const NextToken model = [](int64_t, const Ids&) { return std::vector<float>(6, -1.0f); };
  for (const Ids& prefix : {Ids{}, Ids(10, 4)}) {
    const auto found =
        search_one(model, options_of(8, 1.0, 8), {.max_length = 4, .prefix = prefix});
    ASSERT_EQ(found.size(), 8u);
    for (const Hypothesis& hypothesis : found) {
      EXPECT_DOUBLE_EQ(hypothesis.score, -1.0);
      const auto pieces = static_cast<double>(hypothesis.ids.size() - prefix.size());
      EXPECT_DOUBLE_EQ(hypothesis.log_probability, -(pieces + (hypothesis.finished ? 1 : 0)));
      EXPECT_TRUE(std::equal(prefix.begin(), prefix.end(), hypothesis.ids.begin()));
    }
    EXPECT_EQ(found[0].ids, prefix);  // of equal scores the one that ended first
  }
}

TEST(Search, LengthPenaltyChoosesTheLength) {
  // (end): -1.0, (4 end): -1.5, (4 5 5 end): -2.4. Divided by 1, 2^a, 4^a.
  const NextToken model = [](int64_t, const Ids& history) {
    std::vector<float> row(6, kNever);
    if (history.empty()) {
      row[kEos] = -1.0f, row[4] = -0.9f;
    } else if (history == Ids{4}) {
      row[kEos] = -0.6f, row[5] = -0.7f;
    } else if (history.size() == 2) {
      row[5] = -0.3f;
    } else {
      row[kEos] = -0.5f;
    }
    return row;
  };
  const SearchRequest request{.max_length = 6, .prefix = {}};
  const auto raw = search_one(model, options_of(4, 0.0), request).at(0);
  EXPECT_EQ(raw.ids, Ids{});
  EXPECT_NEAR(raw.score, -1.0, 1e-6);
  const auto mean = search_one(model, options_of(4, 1.0), request).at(0);
  EXPECT_EQ(mean.ids, (Ids{4, 5, 5}));
  EXPECT_NEAR(mean.score, -2.4 / 4, 1e-6);
  EXPECT_NEAR(mean.log_probability, -2.4, 1e-6);
  const auto cube = search_one(model, options_of(4, 3.0), request).at(0);
  EXPECT_EQ(cube.ids, (Ids{4, 5, 5}));
  EXPECT_NEAR(cube.score, -2.4 / 64, 1e-6);
  const auto root = search_one(model, options_of(4, 0.6), request).at(0);
  EXPECT_EQ(root.ids, Ids{4});
  EXPECT_NEAR(root.score, -1.5 / std::pow(2, 0.6), 1e-6);
}

TEST(Search, AnEndTokenAtOnceGivesAnEmptyOutput) {
  const NextToken model = fixed_model({0.05, 0.05, 0.0, 0.9});
  for (const int64_t beam : {1, 4}) {
    const Hypothesis found =
        search_one(model, options_of(beam), {.max_length = 9, .prefix = {}}).at(0);
    EXPECT_TRUE(found.finished);
    EXPECT_TRUE(found.ids.empty());
    EXPECT_NEAR(found.score, std::log(0.9), 1e-6);
    SearchOptions longer = options_of(beam);
    longer.min_length = 3;
    const Hypothesis least = search_one(model, longer, {.max_length = 9, .prefix = {}}).at(0);
    EXPECT_TRUE(least.finished);
    EXPECT_EQ(least.ids, (Ids{0, 0, 0}));  // ties go to the lower id
  }
}

TEST(Search, LimitOfZeroAsksTheModelNothing) {
  RecordingStep step(random_model(6, 1), kBos, kEos);
  const auto found = search(step.function(), {{.max_length = 0, .prefix = {5, 4}}}, options_of(3));
  expect_same(found.at(0).at(0), {{5, 4}, 0.0, 0.0, false});
  EXPECT_TRUE(step.calls.empty());
  EXPECT_TRUE(search(step.function(), {}, options_of(3)).empty());
}

TEST(Search, CutOffOutputsSayThatTheyAreNotFinished) {
  const NextToken model = fixed_model({0.25, 0.75, 0.0, 0.0});
  const auto found = search_one(model, options_of(2, 1.0, 2), {.max_length = 3, .prefix = {}});
  EXPECT_FALSE(found.at(0).finished);
  EXPECT_EQ(found[0].ids, (Ids{1, 1, 1}));
  EXPECT_NEAR(found[0].score, std::log(0.75), 1e-6);
}

TEST(Search, ForbiddenTokensNeverComeOut) {
  SearchOptions options = options_of(5, 1.0, 5);
  options.forbidden = {kBos, 0, 5};
  for (uint32_t seed = 0; seed < 10; ++seed) {
    for (const Hypothesis& found :
         search_one(random_model(6, seed), options, {.max_length = 5, .prefix = {}})) {
      for (const int32_t id : found.ids) EXPECT_TRUE(id == 1 || id == 4) << id;
    }
  }
}

TEST(Search, ResultsAreTheSameWithManyRowsAndThreads) {
  // 64 sentences over a long vocabulary: rows are shared out among threads.
  const NextToken model = random_model(3000, 3);
  const std::vector<SearchRequest> requests(64, {.max_length = 3, .prefix = {}});
  RecordingStep step(model, kBos, kEos);
  const auto together = search(step.function(), requests, options_of(2, 1.0, 2));
  for (const int64_t i : {0, 31, 63}) {
    const NextToken one = [&](int64_t, const Ids& history) { return model(i, history); };
    const auto alone = search_one(one, options_of(2, 1.0, 2), requests[i]);
    for (size_t rank = 0; rank < 2; ++rank) expect_same(together[i].at(rank), alone.at(rank));
  }
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "no error";
}

TEST(Search, ValuesThatAreNoProbabilitiesAreNamed) {
  for (const float bad : {std::nanf(""), 1.0f, std::numeric_limits<float>::infinity()}) {
    const NextToken model = [bad](int64_t, const Ids& history) {
      std::vector<float> row(6, -2.0f);
      if (history.size() == 2) row[1] = bad;
      return row;
    };
    const std::string message =
        message_of([&] { search_one(model, options_of(2), {.max_length = 5, .prefix = {}}); });
    EXPECT_NE(message.find("step 3"), std::string::npos) << message;
    EXPECT_NE(message.find("token 1"), std::string::npos) << message;
  }
}

TEST(Search, NoPossibleTokenIsAnError) {
  const NextToken model = [](int64_t, const Ids&) { return std::vector<float>(6, kNever); };
  const std::string message =
      message_of([&] { search_one(model, options_of(2), {.max_length = 5, .prefix = {}}); });
  EXPECT_NE(message.find("step 1"), std::string::npos) << message;
  EXPECT_NE(message.find("no possible token"), std::string::npos) << message;
}

TEST(Search, ImpossibleOptionsAreRefused) {
  const auto expect_refused = [](SearchOptions options, SearchRequest request) {
    RecordingStep step(fixed_model({0.25, 0.25, 0.25, 0.25}), kBos, kEos);
    EXPECT_THROW(search(step.function(), {request}, options), std::invalid_argument);
  };
  const SearchRequest request{.max_length = 3, .prefix = {}};
  expect_refused(options_of(0), request);
  expect_refused(options_of(2, 1.0, 3), request);
  expect_refused(options_of(2, 1.0, 0), request);
  expect_refused(options_of(2, std::nan("")), request);
  expect_refused(options_of(2), {.max_length = -1, .prefix = {}});
  expect_refused(options_of(2), {.max_length = 3, .prefix = {kEos}});
  expect_refused(options_of(2), {.max_length = 3, .prefix = {4}});  // the vocabulary has 4 tokens
  SearchOptions options = options_of(2);
  options.min_length = -1;
  expect_refused(options, request);
  options = options_of(2, 1.0, 2);
  options.stop_after = 1;
  expect_refused(options, request);
  options = options_of(2);
  options.forbidden = {kEos};
  expect_refused(options, request);
  options.forbidden = {9};
  expect_refused(options, request);
  options = options_of(2);
  options.eos = 7;
  expect_refused(options, request);
}

TEST(Search, PicksOfAnotherShapeAreRefused) {
  const auto expect_refused = [](const StepPicks& returned) {
    const StepFunction step = [&](const StepRows&, StepPicks& picks) { picks = returned; };
    EXPECT_THROW(search(step, {{.max_length = 3, .prefix = {}}}, options_of(1)),
                 std::runtime_error);
  };
  const TokenPick pick{-1.0, 4};
  expect_refused({6, 1, {pick, pick}, {1, 1}});  // a row too many
  expect_refused({6, 2, {pick, pick}, {2}});     // a pick too many
  expect_refused({6, 1, {pick}, {}});
}

}  // namespace
}  // namespace headwise::decode
