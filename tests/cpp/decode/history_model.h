// A model for tests whose every prediction depends on the sentence and on the whole history.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
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

/// Drives a NextToken as a StepFunction, whose picks are those of a sort of the whole row. It keeps
/// the history of each row as a model with a cache would, so a wrong parent or token leads to
/// another model's prediction, and it checks the calls.
class RecordingStep {
 public:
  RecordingStep(NextToken model, int32_t bos, int32_t eos)
      : model_(std::move(model)), bos_(bos), eos_(eos) {}

  StepFunction function() {
    return [this](const StepRows& rows, StepPicks& picks) { step(rows, picks); };
  }

  struct Row {
    int64_t sentence;
    Ids history;
  };
  std::vector<std::vector<Row>> calls;  // the rows of each step

 private:
  void step(const StepRows& asked, StepPicks& picks) {
    EXPECT_EQ(asked.tokens.size(), asked.parents.size());
    EXPECT_EQ(asked.tokens.size(), asked.may_end.size());
    std::vector<Row> rows;
    picks = {};
    for (size_t i = 0; i < asked.tokens.size(); ++i) {
      rows.push_back(continued(asked.tokens[i], asked.parents[i]));
      add_picks(model_(rows.back().sentence, rows.back().history), asked, asked.may_end[i], picks);
    }
    calls.push_back(rows);
  }

  void add_picks(const std::vector<float>& row, const StepRows& asked, bool may_end,
                 StepPicks& picks) const {
    std::vector<TokenPick> sorted;
    for (size_t id = 0; id < row.size(); ++id) {
      const auto token = static_cast<int32_t>(id);
      const bool banned = (token == eos_ && !may_end) ||
                          std::count(asked.forbidden.begin(), asked.forbidden.end(), token) > 0;
      const bool never = row[id] == -std::numeric_limits<float>::infinity();
      if (!banned && !never) sorted.push_back({row[id], token});
    }
    std::stable_sort(sorted.begin(), sorted.end(), [](const TokenPick& a, const TokenPick& b) {
      if (std::isnan(a.log_probability) || std::isnan(b.log_probability)) {
        return std::isnan(a.log_probability) > std::isnan(b.log_probability);
      }
      return a.log_probability > b.log_probability;
    });
    picks.vocabulary = static_cast<int64_t>(row.size());
    picks.width = std::min(asked.wanted, picks.vocabulary);
    picks.counts.push_back(std::min(picks.width, static_cast<int64_t>(sorted.size())));
    sorted.resize(picks.width);
    picks.picks.insert(picks.picks.end(), sorted.begin(), sorted.end());
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
  int32_t bos_, eos_;
};

}  // namespace headwise::decode
