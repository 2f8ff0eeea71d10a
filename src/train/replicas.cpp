#include "src/train/replicas.h"

#include <ATen/ATen.h>

namespace headwise::train {

Replicas::Replicas(const model::Transformer& model, int64_t count) {
  models_.push_back(model);
  const std::vector<at::Tensor> weights = model->parameters();
  for (int64_t i = 1; i < count; ++i) {
    model::Transformer& replica = models_.emplace_back(model->config(), model->source_vocabulary(),
                                                       model->target_vocabulary());
    replica->train_in_bfloat16(model->trains_in_bfloat16());
    const std::vector<at::Tensor> parameters = replica->parameters();
    for (size_t n = 0; n < parameters.size(); ++n) {
      parameters[n].set_data(weights[n]);  // the same memory
    }
  }
}

void Replicas::forget_gradients() {
  for (const model::Transformer& model : models_) {
    for (const at::Tensor& parameter : model->parameters()) parameter.mutable_grad().reset();
  }
}

void Replicas::sum_gradients() {
  at::NoGradGuard no_grad;
  const std::vector<at::Tensor> first = models_[0]->parameters();
  for (const at::Tensor& parameter : first) {
    if (!parameter.grad().defined()) parameter.mutable_grad() = at::zeros_like(parameter.detach());
  }
  for (size_t i = 1; i < models_.size(); ++i) {
    const std::vector<at::Tensor> parameters = models_[i]->parameters();
    std::vector<at::Tensor> sums, gradients;
    for (size_t n = 0; n < parameters.size(); ++n) {
      if (!parameters[n].grad().defined()) continue;
      sums.push_back(first[n].grad());
      gradients.push_back(parameters[n].grad());
    }
    if (!sums.empty()) at::_foreach_add_(sums, gradients);
  }
}

}  // namespace headwise::train
