// Models that share their weights and have gradients of their own, so that parts of a batch can be
// differentiated side by side.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "src/model/transformer.h"

namespace headwise::train {

class Replicas {
 public:
  /// `model` is the first of `count`. Its parameters have gradients, and these get the sum.
  Replicas(const model::Transformer& model, int64_t count);

  int64_t count() const { return int64_t(models_.size()); }
  model::Transformer& operator[](int64_t i) { return models_[size_t(i)]; }

  void zero_gradients();
  /// Adds the gradients of all to those of the first, in order.
  void sum_gradients();

 private:
  std::vector<model::Transformer> models_;
  std::vector<std::vector<at::Tensor>> gradients_;  // of each model
};

}  // namespace headwise::train
