// decode::search over the real Transformer: with its cache, without one, and against every output
// there is.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "src/decode/search.h"
#include "tests/cpp/model/support.h"

namespace headwise::evaluate {
namespace {

using model::testing::double_model;
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

/// A step function that keeps histories only and computes everything anew at each step.
class Uncached {
 public:
  Uncached(model::Transformer model, Sentences sources)
      : model_(std::move(model)), sources_(std::move(sources)) {}

  at::Tensor operator()(const at::Tensor& tokens, const at::Tensor& parents) {
    Sentences sources, histories;
    for (int64_t i = 0; i < tokens.numel(); ++i) {
      const auto parent = size_t(parents[i].item<int64_t>());
      sources.push_back(histories_.empty() ? sources_[parent] : row_sources_[parent]);
      histories.push_back(histories_.empty() ? std::vector<int64_t>{} : histories_[parent]);
      histories.back().push_back(tokens[i].item<int64_t>());
    }
    row_sources_ = sources;
    histories_ = histories;
    const auto target = packed(histories);
    const at::Tensor hidden = model_->decode(target, model_->encode(packed(sources)));
    const at::Tensor last = target.starts.slice(0, 1) - 1;
    return model_->logits(hidden.index_select(0, last)).log_softmax(-1);
  }

 private:
  model::Transformer model_;
  Sentences sources_;
  Sentences row_sources_, histories_;  // of the rows of the last step
};

using Results = std::vector<std::vector<decode::Hypothesis>>;

Results search_cached(model::Transformer& model, const Sentences& sources,
                      const std::vector<decode::SearchRequest>& requests,
                      const decode::SearchOptions& options) {
  int64_t capacity = 1;
  for (const auto& request : requests) {
    capacity = std::max(capacity, request.max_length + int64_t(request.prefix.size()));
  }
  const auto memory = model->encode(packed(sources));
  auto state = model->start(memory, int64_t(sources.size()) * options.beam, capacity);
  return decode::search(
      [&](const at::Tensor& tokens, const at::Tensor& parents) {
        return model->step(state, tokens, parents);
      },
      requests, options);
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
    for (const int64_t beam : {1, 3}) {
      const auto expected =
          decode::search(Uncached(model, sources()), requests(), options_of(beam));
      expect_equal(search_cached(model, sources(), requests(), options_of(beam)), expected);
    }
  }
}

TEST(CachedSearch, SumsAreThoseOfTheWholeOutputScoredAtOnce) {
  at::NoGradGuard no_grad;
  model::Transformer model = double_model(small_config());
  const auto wanted = requests();
  const auto found = search_cached(model, sources(), wanted, options_of(4));
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
  const auto together = search_cached(model, many, wanted, options_of(3));
  for (size_t i = 0; i < many.size(); ++i) {
    SCOPED_TRACE(i);
    expect_equal({together[i]}, search_cached(model, {many[i]}, {wanted[i]}, options_of(3)));
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
    expect_equal(search_cached(model, {source}, {{kLength, {}}}, options), {expected});
    options.nbest = 1;
    expect_equal(search_cached(model, {source}, {{kLength, {}}}, options), {{expected[0]}});
  }
}

TEST(CachedSearch, ACacheThatIsTooSmallIsRefusedAndLeftWhole) {
  at::NoGradGuard no_grad;
  model::Transformer model = double_model(small_config());
  const auto memory = model->encode(packed({sources()[1]}));
  auto state = model->start(memory, 1, 3);
  const at::Tensor parent = at::zeros({1}, at::kLong);
  for (const int64_t token : {kBos, int64_t{4}, int64_t{5}}) {
    model->step(state, at::full({1}, token, at::kLong), parent);
  }
  EXPECT_THROW(model->step(state, at::full({1}, 6, at::kLong), parent), c10::Error);
  EXPECT_EQ(state.layers.front().self.length(), 3);
}

}  // namespace
}  // namespace headwise::evaluate
