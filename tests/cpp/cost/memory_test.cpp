// Counts worked out by hand; the forecast itself is compared with a running process in
// tests/python.
#include "src/cost/memory.h"

#include <gtest/gtest.h>

namespace headwise::cost {
namespace {

config::Config base() {
  config::Config config;
  config.model.width = 512;
  config.model.feed_forward = 2048;
  config.model.encoder_layers = 1;
  config.model.decoder_layers = 1;
  config.model.encoder_heads = {8};
  config.model.decoder_heads = {8};
  config.model.cross_heads = {8};
  return config;
}

TEST(ParameterCount, FollowsFromTheShapes) {
  config::ModelConfig model = base().model;
  // An attention with biases: 4·512² + 4·512 = 1,050,624; feed-forward: 2·512·2048 + 2048 + 512;
  // norms: 2·512 each, two in the encoder layer, three in the decoder's, two at the ends.
  const int64_t expected = 3 * 1050624 + 2 * (2 * 512 * 2048 + 2048 + 512) + 7 * 1024 + 1000 * 512;
  EXPECT_EQ(parameter_count(model, 1000, 1000), expected);
  model.attention_bias = false;
  EXPECT_EQ(parameter_count(model, 1000, 1000), expected - 3 * 4 * 512);
}

TEST(ParameterCount, QueryHeadsAloneDoNotEnterAndKvHeadsDo) {
  config::ModelConfig model = base().model;
  const int64_t eight = parameter_count(model, 100, 100);
  model.encoder_heads = model.decoder_heads = model.cross_heads = {32};
  EXPECT_EQ(parameter_count(model, 100, 100), eight);
  model.encoder_kv_heads = {8};  // a quarter of the key and value projections stays
  EXPECT_EQ(parameter_count(model, 100, 100), eight - 2 * (512 + 1) * 384);
}

TEST(ParameterCount, SeparateAndUntiedEmbeddingsAreTablesOfTheirOwn) {
  config::ModelConfig model = base().model;
  const int64_t shared = parameter_count(model, 300, 300);
  model.embeddings = config::Embeddings::kSeparate;
  EXPECT_EQ(parameter_count(model, 200, 300), shared + 200 * 512);
  model.tied_output = false;
  EXPECT_EQ(parameter_count(model, 200, 300), shared + 500 * 512);
}

TEST(TrainingMemory, OptimiserAndAverageAreMultiplesOfTheWeights) {
  config::Config config = base();
  config.train.shards = 3;
  const TrainingMemory plain = training_memory(config, 100, 100, {50, 40}, 2);
  EXPECT_EQ(plain.weights, 4 * parameter_count(config.model, 100, 100));
  EXPECT_EQ(plain.gradients, 3 * plain.weights);
  EXPECT_EQ(plain.moments, 2 * plain.weights);
  EXPECT_EQ(plain.average, 0);
  config.train.ema = 0.99;
  EXPECT_EQ(training_memory(config, 100, 100, {50, 40}, 2).average, plain.weights);
}

TEST(TrainingMemory, ActivationsGrowLinearlyWithTokens) {
  const config::Config config = base();
  const auto activations = [&](int64_t source, int64_t target) {
    return training_memory(config, 100, 100, {source, target}, 2).activations;
  };
  EXPECT_EQ(activations(200, 0) + activations(0, 300), activations(200, 300));
  EXPECT_EQ(activations(400, 600), 2 * activations(200, 300));
}

TEST(TrainingMemory, OnlyShardsThatRunAtOnceHaveActivations) {
  config::Config config = base();
  config.train.shards = 4;
  const auto activations = [&](int64_t threads) {
    return training_memory(config, 100, 100, {400, 800}, threads).activations;
  };
  EXPECT_EQ(activations(2), 2 * activations(1));
  EXPECT_EQ(activations(8), activations(4));
}

}  // namespace
}  // namespace headwise::cost
