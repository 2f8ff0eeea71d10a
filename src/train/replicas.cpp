#include "src/train/replicas.h"

#include <ATen/ATen.h>

namespace headwise::train {
namespace {

std::vector<at::Tensor> gradients_of(const model::Transformer& model) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : model->parameters()) gradients.push_back(parameter.grad());
  return gradients;
}

}  // namespace

Replicas::Replicas(const model::Transformer& model, int64_t count) {
  models_.push_back(model);
  gradients_.push_back(gradients_of(model));
  const std::vector<at::Tensor> weights = model->parameters();
  for (int64_t i = 1; i < count; ++i) {
    model::Transformer& replica = models_.emplace_back(model->config(), model->source_vocabulary(),
                                                       model->target_vocabulary());
    replica->train_in_bfloat16(model->trains_in_bfloat16());
    const std::vector<at::Tensor> parameters = replica->parameters();
    for (size_t n = 0; n < parameters.size(); ++n) {
      parameters[n].set_data(weights[n]);  // the same memory
      parameters[n].mutable_grad() = at::zeros_like(weights[n].detach());
    }
    gradients_.push_back(gradients_of(replica));
  }
}

void Replicas::zero_gradients() {
  at::NoGradGuard no_grad;
  for (const auto& gradients : gradients_) at::_foreach_zero_(gradients);
}

void Replicas::sum_gradients() {
  at::NoGradGuard no_grad;
  for (size_t i = 1; i < gradients_.size(); ++i) at::_foreach_add_(gradients_[0], gradients_[i]);
}

}  // namespace headwise::train
