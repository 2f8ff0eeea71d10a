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
  /// `model` is the first of `count`.
  Replicas(const model::Transformer& model, int64_t count);

  int64_t count() const { return int64_t(models_.size()); }
  model::Transformer& operator[](int64_t i) { return models_[size_t(i)]; }

  /// The next backward passes bring gradients of their own, which then need no adding.
  void forget_gradients();
  /// Adds the gradients of all to those of the first, in order. Where there are none they are zero.
  void sum_gradients();

 private:
  std::vector<model::Transformer> models_;
};

}  // namespace headwise::train
