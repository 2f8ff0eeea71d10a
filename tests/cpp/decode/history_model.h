// A model for tests whose every prediction depends on the sentence and on the whole history.
#pragma once

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "src/decode/search.h"

namespace headwise::decode {

using Ids = std::vector<int32_t>;

/// Log-probabilities of the next token, given the sentence and everything after the start token.
using NextToken = std::function<std::vector<float>(int64_t sentence, const Ids& history)>;

/// A fresh random distribution for each (sentence, history), the same in every run.
inline NextToken random_model(int64_t vocabulary, uint32_t seed) {
  return [=](int64_t sentence, const Ids& history) {
    std::vector<uint32_t> key{seed, static_cast<uint32_t>(sentence)};
    for (const int32_t id : history) key.push_back(static_cast<uint32_t>(id) + 1000);
    std::seed_seq sequence(key.begin(), key.end());
    std::mt19937 generator(sequence);
    std::vector<double> weights(vocabulary);
    double total = 0;
    for (double& weight : weights) {
      weight = std::exp(4.0 * generator() / generator.max());
      total += weight;
    }
    std::vector<float> row;
    for (const double weight : weights) row.push_back(static_cast<float>(std::log(weight / total)));
    return row;
  };
}

/// The same distribution whatever came before.
inline NextToken fixed_model(const std::vector<double>& probabilities) {
  std::vector<float> row;
  for (const double p : probabilities) row.push_back(static_cast<float>(std::log(p)));
  return [row](int64_t, const Ids&) { return row; };
}

/// Drives a NextToken as a StepFunction. It keeps the history of each row as a model with a cache
/// would, so a wrong parent or token leads to another model's prediction, and it checks the calls.
class RecordingStep {
 public:
  RecordingStep(NextToken model, int32_t bos) : model_(std::move(model)), bos_(bos) {}

  StepFunction function() {
    return [this](const at::Tensor& tokens, const at::Tensor& parents) {
      return step(tokens, parents);
    };
  }

  struct Row {
    int64_t sentence;
    Ids history;
  };
  std::vector<std::vector<Row>> calls;  // the rows of each step

 private:
  at::Tensor step(const at::Tensor& tokens, const at::Tensor& parents) {
    EXPECT_EQ(tokens.scalar_type(), at::kLong);
    EXPECT_EQ(parents.scalar_type(), at::kLong);
    EXPECT_EQ(tokens.sizes(), parents.sizes());
    std::vector<Row> rows;
    std::vector<std::vector<float>> predictions;
    for (int64_t i = 0; i < tokens.numel(); ++i) {
      rows.push_back(continued(tokens.data_ptr<int64_t>()[i], parents.data_ptr<int64_t>()[i]));
      predictions.push_back(model_(rows.back().sentence, rows.back().history));
    }
    calls.push_back(rows);
    const auto width = static_cast<int64_t>(predictions.at(0).size());
    at::Tensor result = at::empty({tokens.numel(), width}, at::kFloat);
    for (size_t i = 0; i < predictions.size(); ++i) {
      std::copy(predictions[i].begin(), predictions[i].end(), result.data_ptr<float>() + i * width);
    }
    return result;
  }

  Row continued(int64_t token, int64_t parent) const {
    if (calls.empty()) {
      EXPECT_EQ(token, bos_);
      return {parent, {}};
    }
    Row row = calls.back().at(parent);
    row.history.push_back(static_cast<int32_t>(token));
    return row;
  }

  NextToken model_;
  int32_t bos_;
};

}  // namespace headwise::decode
