#include "src/evaluate/scorer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <numeric>

#include "src/config/interrupt.h"
#include "tests/cpp/evaluate/support.h"

namespace headwise::evaluate {
namespace {

using testing::random_model;
using testing::vocabularies;

data::EncodedCorpus corpus_of_all_lengths() {
  data::EncodedCorpus corpus;
  const auto lines = testing::lines_of_all_lengths(30);
  for (size_t i = 0; i < lines.size(); ++i) {
    corpus.source.push_back(vocabularies().source.encode(lines[i]));
    corpus.target.push_back(vocabularies().target.encode(lines[(i * 11 + 3) % lines.size()]));
    corpus.lines.push_back(int64_t(i) + 1);
  }
  corpus.target[4].clear();  // an empty translation still ends
  corpus.source[9].clear();  // and an empty source still has its end token
  return corpus;
}

data::BatcherOptions batching(int64_t batch_tokens) {
  data::BatcherOptions options;
  options.batch_tokens = batch_tokens;
  return options;
}

/// ln p of one pair alone: the sum over its labels, taken one by one in double precision.
double score_alone(model::Transformer& model, const data::Ids& source, const data::Ids& target) {
  at::NoGradGuard no_grad;
  std::vector<int64_t> source_tokens(source.begin(), source.end());
  source_tokens.push_back(vocabularies().source.eos());
  std::vector<int64_t> input = {vocabularies().target.bos()};
  input.insert(input.end(), target.begin(), target.end());
  std::vector<int64_t> labels(target.begin(), target.end());
  labels.push_back(vocabularies().target.eos());
  const auto memory = model->encode(model::testing::packed({source_tokens}));
  const at::Tensor hidden = model->decode(model::testing::packed({input}), memory);
  const at::Tensor log_p = model->logits(hidden).to(at::kDouble).log_softmax(-1);
  double sum = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    sum += log_p[int64_t(i)][labels[i]].item<double>();
  }
  return sum;
}

TEST(Scorer, EachPairIsScoredAsIfItWereAlone) {
  model::Transformer model = random_model(model::testing::small_config());
  const data::EncodedCorpus corpus = corpus_of_all_lengths();
  for (const int64_t batch_tokens : {1, 50, 5000}) {
    const auto scores = score_pairs(model, corpus, batching(batch_tokens), testing::never_stop);
    ASSERT_EQ(int64_t(scores.size()), corpus.size());
    for (size_t i = 0; i < scores.size(); ++i) {
      const double alone = score_alone(model, corpus.source[i], corpus.target[i]);
      EXPECT_NEAR(scores[i], alone, 1e-5 * std::abs(alone)) << "pair " << i;
    }
  }
}

TEST(Scorer, TheLossOfACorpusIsTheSumOverItsPairs) {
  model::Transformer model = random_model(model::testing::small_config());
  const data::EncodedCorpus corpus = corpus_of_all_lengths();
  const auto scores = score_pairs(model, corpus, batching(400), testing::never_stop);
  const double sum = -std::accumulate(scores.begin(), scores.end(), 0.0);
  int64_t labels = corpus.size();
  for (const data::Ids& ids : corpus.target) labels += int64_t(ids.size());
  for (const int64_t batch_tokens : {1, 50, 5000}) {
    const CorpusLoss plain =
        corpus_loss(model, corpus, batching(batch_tokens), 0.0, testing::never_stop);
    EXPECT_NEAR(plain.nll, sum, 1e-6 * sum);
    EXPECT_NEAR(plain.smoothed, sum, 1e-6 * sum);
    EXPECT_EQ(plain.labels, labels);
    EXPECT_NEAR(plain.mean_nll(), sum / double(labels), 1e-5);
    const CorpusLoss smooth =
        corpus_loss(model, corpus, batching(batch_tokens), 0.1, testing::never_stop);
    EXPECT_NEAR(smooth.nll, sum, 1e-6 * sum) << "smoothing must not change the plain loss";
    EXPECT_GT(std::abs(smooth.smoothed - sum), 1e-3 * sum);
  }
}

TEST(Scorer, DropoutIsOffEvenForAModelInTraining) {
  config::ModelConfig config = model::testing::small_config();
  config.dropout = 0.5;
  config.attention_dropout = 0.5;
  model::Transformer model = random_model(config);
  const data::EncodedCorpus corpus = corpus_of_all_lengths();
  model->train();
  const auto first = score_pairs(model, corpus, batching(400), testing::never_stop);
  model->train();
  EXPECT_EQ(first, score_pairs(model, corpus, batching(400), testing::never_stop));
}

TEST(Scorer, AStopComesThroughBetweenBatches) {
  model::Transformer model = random_model(model::testing::small_config());
  const data::EncodedCorpus corpus = corpus_of_all_lengths();
  int calls = 0;
  const auto stop = [&] {
    if (++calls == 4) throw Interrupted{15};
  };
  EXPECT_THROW(score_pairs(model, corpus, batching(1), stop), Interrupted);
  EXPECT_EQ(calls, 4);
}

}  // namespace
}  // namespace headwise::evaluate
