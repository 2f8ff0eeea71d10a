// decode::search over the real Transformer: with its cache, without one, and against every output
// there is.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>

#include "csrc/ops/ensemble.h"
#include "src/decode/search.h"
#include "src/evaluate/decoding_step.h"
#include "src/model/packed.h"
#include "tests/cpp/model/support.h"

namespace headwise::evaluate {
namespace {

using model::testing::double_model;
using model::testing::joined;
using model::testing::packed;
using model::testing::small_config;
using Sentences = std::vector<std::vector<int64_t>>;

constexpr int64_t kBos = 2, kEos = 3;

const Sentences& sources() {
  static const Sentences all = {{5, 4, kEos}, {9, 8, 7, 6, 5, 4, 10, kEos}, {kEos}, {7, 7, kEos}};
  return all;
}

/// Log-probabilities (T, V) of what follows each token of `input`, without any cache.
at::Tensor log_probabilities(model::Transformer& model, const std::vector<int64_t>& source,
                             const std::vector<int64_t>& input) {
  const auto memory = model->encode(packed({source}));
  return model->logits(model->decode(packed({input}), memory)).log_softmax(-1);
}

/// A step function that keeps histories only and computes everything anew at each step. Several
/// models: the mean of their probabilities.
class Uncached {
 public:
  Uncached(std::vector<model::Transformer> models, Sentences sources)
      : models_(std::move(models)), sources_(std::move(sources)) {}

  void operator()(const decode::StepRows& rows, decode::StepPicks& picks) {
    Sentences sources, histories;
    for (size_t i = 0; i < rows.tokens.size(); ++i) {
      const auto parent = size_t(rows.parents[i]);
      sources.push_back(histories_.empty() ? sources_[parent] : row_sources_[parent]);
      histories.push_back(histories_.empty() ? std::vector<int64_t>{} : histories_[parent]);
      histories.back().push_back(rows.tokens[i]);
    }
    row_sources_ = sources;
    histories_ = histories;
    const auto target = packed(histories);
    const at::Tensor last = target.starts.slice(0, 1) - 1;
    std::vector<at::Tensor> log_p;
    for (model::Transformer& model : models_) {
      const at::Tensor hidden = model->decode(target, model->encode(packed(sources)));
      log_p.push_back(model->logits(hidden.index_select(0, last)).log_softmax(-1));
    }
    pick(at::stack(log_p).logsumexp(0) - std::log(double(models_.size())), rows, picks);
  }

 private:
  /// Sorts every row whole.
  static void pick(at::Tensor log_p, const decode::StepRows& rows, decode::StepPicks& picks) {
    constexpr double kNever = -std::numeric_limits<double>::infinity();
    for (const int32_t id : rows.forbidden) log_p.select(1, id).fill_(kNever);
    for (int64_t i = 0; i < log_p.size(0); ++i) {
      if (!rows.may_end[size_t(i)]) log_p[i][kEos] = kNever;
    }
    picks = {log_p.size(1), std::min(rows.wanted, log_p.size(1)), {}, {}};
    const auto [values, ids] = log_p.sort(/*stable=*/true, -1, /*descending=*/true);
    for (int64_t i = 0; i < log_p.size(0); ++i) {
      const int64_t possible = values[i].gt(kNever).sum().item<int64_t>();
      picks.counts.push_back(std::min(picks.width, possible));
      for (int64_t k = 0; k < picks.width; ++k) {
        picks.picks.push_back({values[i][k].item<double>(), ids[i][k].item<int32_t>()});
      }
    }
  }

  std::vector<model::Transformer> models_;
  Sentences sources_;
  Sentences row_sources_, histories_;  // of the rows of the last step
};

using Results = std::vector<std::vector<decode::Hypothesis>>;

Results search_cached(const std::vector<model::Transformer>& models, const Sentences& sources,
                      const std::vector<decode::SearchRequest>& requests,
                      const decode::SearchOptions& options) {
  int64_t capacity = 1;
  for (const auto& request : requests) {
    capacity = std::max(capacity, request.max_length + int64_t(request.prefix.size()));
  }
  std::vector<std::unique_ptr<PackedTransformer>> packs;
  for (const model::Transformer& model : models) packs.push_back(model::pack(model));
  const auto fused = ensemble_of(std::move(packs));
  const auto decoding =
      fused->start(joined(sources), int64_t(sources.size()) * options.beam, capacity);
  return decode::search(step_of(*decoding, *fused, int32_t(kEos)), requests, options);
}

void expect_equal(const Results& actual, const Results& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_EQ(actual[i].size(), expected[i].size()) << "sentence " << i;
    for (size_t k = 0; k < actual[i].size(); ++k) {
      EXPECT_EQ(actual[i][k].ids, expected[i][k].ids) << "sentence " << i << " rank " << k;
      EXPECT_NEAR(actual[i][k].log_probability, expected[i][k].log_probability, 1e-5);
      EXPECT_NEAR(actual[i][k].score, expected[i][k].score, 1e-5);
      EXPECT_EQ(actual[i][k].finished, expected[i][k].finished);
    }
  }
}

decode::SearchOptions options_of(int64_t beam) {
  decode::SearchOptions options;
  options.beam = beam;
  options.nbest = beam;
  options.bos = kBos;
  options.eos = kEos;
  options.forbidden = {0, 1, kBos};
  return options;
}

/// Different limits and prefixes, so that sentences leave the batch at different steps.
std::vector<decode::SearchRequest> requests() {
  return {{9, {}}, {14, {6, 5, 9}}, {2, {4, 4, 5, 6, 7, 8, 9}}, {11, {10}}};
}

TEST(CachedSearch, EqualsASearchThatComputesEverythingAnew) {
  at::NoGradGuard no_grad;
  at::set_num_threads(1);  // nothing here is large enough to share
  const auto configs = model::testing::variations();
  for (size_t c = 0; c < configs.size(); ++c) {
    SCOPED_TRACE(c);
    model::Transformer model = double_model(configs[c]);
    for (const int64_t beam : {1, 3, 5}) {
      const auto expected =
          decode::search(Uncached({model}, sources()), requests(), options_of(beam));
      expect_equal(search_cached({model}, sources(), requests(), options_of(beam)), expected);
    }
  }
}

/// Unlike sizes, kinds and weights, one vocabulary.
std::vector<model::Transformer> unlike_models() {
  config::ModelConfig other = small_config();
  other.width *= 2;
  other.norm = config::NormPlacement::kPost;
  other.positions = config::Positions::kRotary;
  std::vector<model::Transformer> models = {double_model(small_config()), double_model(other),
                                            double_model(small_config())};
  at::manual_seed(99);
  for (const at::Tensor& weight : models.back()->parameters()) weight.normal_(0, 0.3);
  return models;
}

TEST(CachedSearch, SeveralModelsTranslateByTheMeanOfTheirProbabilities) {
  at::NoGradGuard no_grad;
  std::vector<model::Transformer> models = unlike_models();
  for (const int64_t beam : {1, 4}) {
    const decode::SearchOptions options = options_of(beam);
    const auto expected = decode::search(Uncached(models, sources()), requests(), options);
    expect_equal(search_cached(models, sources(), requests(), options), expected);
    const auto first = search_cached({models[0]}, sources(), requests(), options);
    EXPECT_GT(std::abs(first[0][0].score - expected[0][0].score), 1e-3) << "one model alone";
  }
}

TEST(CachedSearch, AModelAndItselfAreThatModel) {
  at::NoGradGuard no_grad;
  model::Transformer model = double_model(small_config());
  const auto expected = search_cached({model}, sources(), requests(), options_of(4));
  expect_equal(search_cached({model, model, model}, sources(), requests(), options_of(4)),
               expected);
}

TEST(CachedSearch, WhatCannotTranslateTogetherIsRefused) {
  std::vector<std::unique_ptr<PackedTransformer>> none, unlike;
  EXPECT_THROW(ensemble_of(std::move(none)), c10::Error);
  unlike.push_back(model::pack(double_model(small_config(), 11)));
  unlike.push_back(model::pack(double_model(small_config(), 12)));
  EXPECT_THROW(ensemble_of(std::move(unlike)), c10::Error);
}

TEST(CachedSearch, AMemberWithoutNumbersIsNeverHeard) {
  at::NoGradGuard no_grad;
  std::vector<model::Transformer> models = unlike_models();
  models[0]->named_parameters()["decoder_norm.bias"].fill_(
      std::numeric_limits<double>::quiet_NaN());
  EXPECT_THROW(search_cached(models, sources(), requests(), options_of(2)), std::runtime_error);
}

TEST(CachedSearch, SumsAreThoseOfTheWholeOutputScoredAtOnce) {
  at::NoGradGuard no_grad;
  model::Transformer model = double_model(small_config());
  const auto wanted = requests();
  const auto found = search_cached({model}, sources(), wanted, options_of(4));
  for (size_t i = 0; i < found.size(); ++i) {
    for (const decode::Hypothesis& hypothesis : found[i]) {
      std::vector<int64_t> input = {kBos};
      input.insert(input.end(), hypothesis.ids.begin(), hypothesis.ids.end());
      std::vector<int64_t> labels(input.begin() + 1, input.end());
      if (hypothesis.finished) labels.push_back(kEos);
      const at::Tensor log_p = log_probabilities(model, sources()[i], input);
      const size_t forced = wanted[i].prefix.size();
      double sum = 0;  // the prefix is given, not predicted
      for (size_t t = forced; t < labels.size(); ++t) {
        sum += log_p[int64_t(t)][labels[t]].item<double>();
      }
      EXPECT_NEAR(hypothesis.log_probability, sum, 1e-5);
      EXPECT_NEAR(hypothesis.score, sum / double(labels.size() - forced), 1e-5);
      EXPECT_TRUE(
          std::equal(wanted[i].prefix.begin(), wanted[i].prefix.end(), hypothesis.ids.begin()));
    }
  }
}

TEST(CachedSearch, TheOtherSentencesOfABatchChangeNothing) {
  at::NoGradGuard no_grad;
  model::Transformer model = double_model(small_config());
  Sentences many = sources();
  std::vector<decode::SearchRequest> wanted = requests();
  many.push_back(std::vector<int64_t>(100, 6));  // a long neighbour
  wanted.push_back({40, {}});
  const auto together = search_cached({model}, many, wanted, options_of(3));
  for (size_t i = 0; i < many.size(); ++i) {
    SCOPED_TRACE(i);
    expect_equal({together[i]}, search_cached({model}, {many[i]}, {wanted[i]}, options_of(3)));
  }
}

/// Every output of up to `length` predicted tokens, best first.
std::vector<decode::Hypothesis> all_outputs(model::Transformer& model,
                                            const std::vector<int64_t>& source, int64_t length,
                                            double penalty) {
  std::vector<decode::Hypothesis> all;
  const auto normalised = [&](double sum, int64_t tokens) {
    return sum / std::pow(double(tokens), penalty);
  };
  const std::function<void(std::vector<int64_t>, double)> grow = [&](std::vector<int64_t> input,
                                                                     double sum) {
    const auto predicted = int64_t(input.size()) - 1;
    const std::vector<int32_t> ids(input.begin() + 1, input.end());
    if (predicted == length) {
      all.push_back({ids, sum, normalised(sum, predicted), false});
      return;
    }
    const at::Tensor next = log_probabilities(model, source, input)[-1];
    for (int64_t token = 0; token < next.size(0); ++token) {
      if (token == 0 || token == kBos) continue;
      const double longer = sum + next[token].item<double>();
      if (token == kEos) {
        all.push_back({ids, longer, normalised(longer, predicted + 1), true});
      } else {
        input.push_back(token);
        grow(input, longer);
        input.pop_back();
      }
    }
  };
  grow({kBos}, 0.0);
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
  return all;
}

TEST(CachedSearch, ABeamThatIsNeverFullFindsTheBestOfAllOutputs) {
  at::NoGradGuard no_grad;
  constexpr int64_t kPieces = 6, kLength = 3, kWidth = 27;  // 3 tokens beside the end, 3 steps
  model::Transformer model = double_model(small_config(), kPieces);
  const std::vector<int64_t> source = {4, 5, 1, kEos};
  for (const double penalty : {0.0, 0.6, 1.0, 2.0}) {
    SCOPED_TRACE(penalty);
    std::vector<decode::Hypothesis> expected = all_outputs(model, source, kLength, penalty);
    ASSERT_EQ(expected.size(), 1u + 3 + 9 + 27);
    expected.resize(kWidth);
    decode::SearchOptions options = options_of(kWidth);
    options.forbidden = {0, kBos};
    options.length_penalty = penalty;
    expect_equal(search_cached({model}, {source}, {{kLength, {}}}, options), {expected});
    options.nbest = 1;
    expect_equal(search_cached({model}, {source}, {{kLength, {}}}, options), {{expected[0]}});
  }
}

TEST(CachedSearch, AStepThatIsImpossibleIsRefusedAndChangesNothing) {
  model::Transformer model = double_model(small_config());
  const auto fused = model::pack(model);
  const auto decoding = fused->start({sources()[1], {0, int64_t(sources()[1].size())}}, 1, 3);
  DecodeChoices choices;
  const auto step = [&](std::vector<int64_t> tokens, std::vector<int64_t> parents) {
    const std::vector<char> may_end(tokens.size(), 1);
    decoding->step({tokens, parents, may_end, {}, int32_t(kEos), 1}, choices);
  };
  step({kBos}, {0});
  EXPECT_THROW(step({4, 5}, {0, 0}), c10::Error) << "more rows than there is room for";
  EXPECT_THROW(step({}, {}), c10::Error);
  EXPECT_THROW(step({11}, {0}), c10::Error) << "no such token";
  EXPECT_THROW(step({4}, {1}), c10::Error) << "no such row";
  EXPECT_EQ(decoding->position(), 1);
  step({4}, {0});
  step({5}, {0});
  EXPECT_THROW(step({6}, {0}), c10::Error) << "more tokens than there is room for";
  EXPECT_EQ(decoding->position(), 3);
  EXPECT_THROW(fused->start({{4, 11}, {0, 2}}, 1, 3), c10::Error) << "no such source token";
  EXPECT_THROW(fused->start({{4, 5}, {0, 2, 2}}, 1, 3), c10::Error) << "an empty sentence";
  EXPECT_THROW(fused->start({{4, 5}, {0, 2}}, 0, 3), c10::Error);
}

}  // namespace
}  // namespace headwise::evaluate
