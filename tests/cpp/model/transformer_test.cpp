// Properties that hold for every architecture a configuration can ask for.
#include "src/model/transformer.h"

#include <gtest/gtest.h>

#include "src/model/packed.h"
#include "tests/cpp/model/support.h"

namespace headwise::model {
namespace {

using testing::double_model;
using testing::joined;
using testing::packed;

const std::vector<std::vector<int64_t>> kSources = {{5, 6, 7, 8, 3}, {9, 3}, {4, 10, 4, 3}};
const std::vector<std::vector<int64_t>> kTargets = {{2, 7, 9}, {2, 5, 6, 8, 4}, {2}};

class EveryArchitecture : public ::testing::TestWithParam<int> {
 protected:
  config::ModelConfig config = testing::variations().at(size_t(GetParam()));
  Transformer model = double_model(config);

  at::Tensor scores(const std::vector<std::vector<int64_t>>& sources,
                    const std::vector<std::vector<int64_t>>& targets) {
    return model->logits(model->decode(packed(targets), model->encode(packed(sources))));
  }
};

TEST_P(EveryArchitecture, ABatchEqualsItsSentencesAlone) {
  at::NoGradGuard no_grad;
  const at::Tensor together = scores(kSources, kTargets);
  int64_t row = 0;
  for (size_t b = 0; b < kSources.size(); ++b) {
    const at::Tensor alone = scores({kSources[b]}, {kTargets[b]});
    EXPECT_TRUE(at::allclose(together.narrow(0, row, alone.size(0)), alone, 1e-10, 1e-10));
    row += alone.size(0);
  }
}

TEST_P(EveryArchitecture, StepsWithACacheEqualTheWholeTarget) {
  at::NoGradGuard no_grad;
  const std::vector<int64_t> target = {2, 7, 9, 4, 6};
  const Memory memory = model->encode(packed(kSources));
  const std::vector<std::vector<int64_t>> targets(kSources.size(), target);
  const at::Tensor whole =
      at::log_softmax(model->logits(model->decode(packed(targets), memory)), -1)
          .view({int64_t(kSources.size()), int64_t(target.size()), -1});
  const auto fused = pack(model);
  const auto decoding = fused->start(joined(kSources), 3, 8);
  const std::vector<int64_t> same_rows = {0, 1, 2};
  const std::vector<char> may_end = {1, 1, 1};
  DecodeChoices choices;
  for (size_t t = 0; t < target.size(); ++t) {
    const std::vector<int64_t> tokens(3, target[t]);
    decoding->step({tokens, same_rows, may_end, {}, 3, /*wanted=*/100}, choices);
    at::Tensor step = at::zeros_like(whole.select(1, 0));
    for (int64_t r = 0; r < 3; ++r) {
      ASSERT_EQ(choices.counts[size_t(r)], step.size(1));
      for (int64_t k = 0; k < step.size(1); ++k) {
        const auto& choice = choices.choices[size_t(r * step.size(1) + k)];
        step[r][choice.token] = choice.log_probability;
      }
    }
    EXPECT_TRUE(at::allclose(step, whole.select(1, int64_t(t)), 1e-9, 1e-9)) << "step " << t;
  }
}

TEST_P(EveryArchitecture, ATargetPositionNeverSeesLaterOnes) {
  at::NoGradGuard no_grad;
  const at::Tensor before = scores({kSources[0]}, {{2, 7, 9, 4}});
  const at::Tensor after = scores({kSources[0]}, {{2, 7, 9, 8}});
  EXPECT_TRUE(at::equal(before.narrow(0, 0, 3), after.narrow(0, 0, 3)));
  EXPECT_FALSE(at::allclose(before[3], after[3]));
}

TEST_P(EveryArchitecture, EveryParameterLearns) {
  const at::Tensor loss = scores(kSources, kTargets).pow(2).sum();
  loss.backward();
  for (const auto& item : model->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    // Adding a constant to every key changes no softmax: with plain positions this gradient is 0.
    const bool key_bias = item.key().find("k_proj.bias") != std::string::npos;
    if (!key_bias) {
      EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
    }
  }
}

TEST_P(EveryArchitecture, SourceOrderMatters) {
  at::NoGradGuard no_grad;
  EXPECT_FALSE(at::allclose(scores({{5, 6, 7, 3}}, {{2, 7}}), scores({{6, 5, 7, 3}}, {{2, 7}})));
}

INSTANTIATE_TEST_SUITE_P(Model, EveryArchitecture,
                         ::testing::Range(0, int(testing::variations().size())));

TEST(Transformer, DropoutActsInTrainingOnly) {
  config::ModelConfig config = testing::small_config();
  config.dropout = 0.5;
  config.attention_dropout = 0.3;
  config.activation_dropout = 0.3;
  Transformer model = double_model(config);
  const auto run = [&] { return model->encode(packed(kSources)).states; };
  EXPECT_TRUE(at::equal(run(), run()));
  model->train();
  EXPECT_FALSE(at::allclose(run(), run()));
  at::manual_seed(8);
  const at::Tensor first = run();
  at::manual_seed(8);
  EXPECT_TRUE(at::equal(first, run()));
  model->eval();
  EXPECT_TRUE(at::equal(run(), run()));
}

TEST(Transformer, CrossKeysAreStoredOncePerSentenceAndByKvHeads) {
  at::NoGradGuard no_grad;
  config::ModelConfig config = testing::small_config();
  Transformer wide = double_model(config);
  config.cross_kv_heads = {1};
  config.decoder_kv_heads = {2};
  Transformer grouped = double_model(config);
  const auto bytes_of = [&](const Transformer& model, int64_t rows, int64_t capacity) {
    return pack(model)->start(joined(kSources), rows, capacity)->bytes();
  };
  // Double, heads padded to 8 numbers: 2 layers of keys and values.
  const int64_t of_heads = int64_t{2} * 8 * 8, tokens = 11, padded_tokens = 3 * 8;
  EXPECT_EQ(bytes_of(wide, 12, 8), of_heads * 4 * (2 * 12 * 8 + tokens + padded_tokens));
  EXPECT_EQ(bytes_of(grouped, 12, 8), of_heads * (2 * 2 * 12 * 8 + tokens + padded_tokens));
}

TEST(Transformer, SharedEmbeddingsNeedOneVocabulary) {
  try {
    Transformer model(testing::small_config(), 11, 12);
    FAIL() << "11 and 12 pieces were accepted";
  } catch (const c10::Error& error) {
    EXPECT_NE(error.msg().find("11"), std::string::npos);
    EXPECT_NE(error.msg().find("12"), std::string::npos);
  }
}

}  // namespace
}  // namespace headwise::model
