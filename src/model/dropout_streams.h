// Random bits of one forward pass.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "csrc/nn/multi_head_attention.h"
#include "csrc/ops/dropout_options.h"

namespace headwise::model {

/// A seed, and a stream of it for each place that drops, in the order in which the pass meets them:
/// what is dropped depends on the seed alone, whoever else draws numbers at the same time.
class DropoutStreams {
 public:
  /// Every place draws a seed of its own from torch's default generator.
  DropoutStreams() = default;
  explicit DropoutStreams(uint64_t seed);

  DropoutOptions next(double probability) { return {probability, seed_, offset_++}; }
  /// For an attention, whose module knows the probability.
  nn::PackedRules next_rules(bool causal) { return {causal, std::nullopt, seed_, offset_++}; }

 private:
  std::optional<at::Tensor> seed_;
  int64_t offset_ = 0;
};

}  // namespace headwise::model
