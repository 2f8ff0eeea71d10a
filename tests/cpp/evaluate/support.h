// Text, subword models and small random models for the tests of src/evaluate.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "src/config/config.h"
#include "src/data/subword.h"
#include "src/evaluate/translator.h"
#include "src/model/packed.h"
#include "src/model/transformer.h"
#include "tests/cpp/model/support.h"

namespace headwise::evaluate::testing {

/// `words` words that end in a full stop now and then; the same for the same seed.
inline std::string sentence(int64_t words, uint32_t seed) {
  static const std::vector<std::string> lexicon = {
      "the",  "a",     "red", "old", "house", "river", "sees", "runs", "tree.",
      "dog.", "under", "far", "is",  "of",    "not",   "ship", "sun.", "we"};
  std::mt19937 generator(seed);
  std::string text;
  for (int64_t i = 0; i < words; ++i) {
    text += (i == 0 ? "" : " ") + lexicon[generator() % lexicon.size()];
  }
  return text;
}

/// One line of each length 1 … count, in words, in a mixed order.
inline std::vector<std::string> lines_of_all_lengths(int64_t count) {
  std::vector<std::string> lines;
  for (int64_t i = 0; i < count; ++i) {
    lines.push_back(sentence(1 + i * 7 % count, 100 + uint32_t(i)));
  }
  return lines;
}

/// A joint model of 40 pieces trained on text of the same kind, with a piece for most words.
inline const data::Vocabularies& vocabularies() {
  static const data::Vocabularies joint = [] {
    std::vector<std::string> text;
    for (uint32_t i = 0; i < 200; ++i) text.push_back(sentence(8, i));
    config::SubwordConfig options;
    options.vocabulary = 40;
    const data::Subword model = data::Subword::train({&text}, options);
    return data::Vocabularies{model, model, true};
  }();
  return joint;
}

inline config::ModelConfig config_with_own_output() {
  config::ModelConfig config = model::testing::small_config();
  config.embeddings = config::Embeddings::kSeparate;
  config.tied_output = false;
  return config;
}

/// Random weights, the same in every run; single precision as in use.
inline model::Transformer random_model(const config::ModelConfig& config) {
  at::set_num_threads(1);  // nothing here is large enough to share
  at::manual_seed(5);
  model::Transformer model(config, vocabularies().source.size(), vocabularies().target.size());
  model->eval();
  return model;
}

/// Adds `logit` to the score of `piece` at every step, whatever the model has seen.
inline void steer(model::Transformer& model, int32_t piece, double logit) {
  at::NoGradGuard no_grad;
  auto parameters = model->named_parameters();
  parameters["decoder_norm.weight"].select(0, 0).fill_(0);
  parameters["decoder_norm.bias"].select(0, 0).fill_(1);
  parameters["output.weight"].select(1, 0).fill_(0);
  parameters["output.weight"].select(0, piece).select(0, 0).fill_(logit);
}

/// Short limits, so that a model that never ends is soon done.
inline TranslateOptions translate_options(int64_t beam, int64_t batch_tokens = 2000) {
  TranslateOptions options;
  options.decoding.beam = beam;
  options.decoding.batch_tokens = batch_tokens;
  options.decoding.max_length_factor = 0.5;
  options.decoding.max_length_extra = 5;
  return options;
}

inline void never_stop() {}

inline std::vector<TranslatedLine> translate(model::Transformer& model,
                                             const TranslateOptions& options,
                                             const std::vector<std::string>& lines) {
  return Translator(model::pack(model), vocabularies(), options).translate(lines, never_stop);
}

}  // namespace headwise::evaluate::testing
