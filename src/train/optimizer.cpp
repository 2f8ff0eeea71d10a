#include "src/train/optimizer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>

namespace headwise::train {
namespace {

std::vector<at::Tensor> gradients_of(const std::vector<at::Tensor>& parameters) {
  std::vector<at::Tensor> gradients;
  for (const at::Tensor& parameter : parameters) gradients.push_back(parameter.grad());
  return gradients;
}

}  // namespace

Optimizer::Optimizer(const io::Tensors& parameters, const config::OptimizerConfig& options)
    : options_(options) {
  for (const auto& [name, parameter] : parameters) {
    names_.push_back(name);
    parameters_.push_back(parameter);
    first_moments_.push_back(at::zeros_like(parameter.detach()));
    second_moments_.push_back(at::zeros_like(parameter.detach()));
    parameter.mutable_grad() = at::zeros_like(parameter.detach());
  }
}

double Optimizer::gradient_norm() const {
  at::NoGradGuard no_grad;
  double squares = 0;
  for (const at::Tensor& norm : at::_foreach_norm(gradients_of(parameters_))) {
    squares += std::pow(norm.item<double>(), 2);
  }
  return std::sqrt(squares);
}

void Optimizer::scale_gradients(double factor) {
  at::NoGradGuard no_grad;
  at::_foreach_mul_(gradients_of(parameters_), factor);
}

void Optimizer::update(double learning_rate, int64_t step) {
  at::NoGradGuard no_grad;
  // One counter a parameter, all the same.
  const std::vector<at::Tensor> steps(parameters_.size(), at::full({}, double(step), at::kFloat));
  const auto gradients = gradients_of(parameters_);
  const config::OptimizerConfig& o = options_;
  if (o.kind == config::OptimizerKind::kAdam) {
    at::_fused_adam_(parameters_, gradients, first_moments_, second_moments_, {}, steps,
                     learning_rate, o.beta1, o.beta2, o.weight_decay, o.epsilon, false, false);
  } else {
    at::_fused_adamw_(parameters_, gradients, first_moments_, second_moments_, {}, steps,
                      learning_rate, o.beta1, o.beta2, o.weight_decay, o.epsilon, false, false);
  }
}

io::Tensors Optimizer::state() const {
  io::Tensors state;
  for (size_t i = 0; i < names_.size(); ++i) {
    state["first_moment." + names_[i]] = first_moments_[i];
    state["second_moment." + names_[i]] = second_moments_[i];
  }
  return state;
}

MovingAverage::MovingAverage(const io::Tensors& parameters, double decay)
    : decay_(decay), parameters_(parameters) {
  for (const auto& [name, parameter] : parameters) averages_[name] = parameter.detach().clone();
}

void MovingAverage::update(int64_t step) {
  at::NoGradGuard no_grad;
  const double decay = std::min(decay_, double(1 + step) / double(10 + step));
  for (auto& [name, average] : averages_) average.lerp_(parameters_.at(name), 1 - decay);
}

void MovingAverage::swap() {
  at::NoGradGuard no_grad;
  for (auto& [name, average] : averages_) {
    at::Tensor parameter = parameters_.at(name);
    const at::Tensor trained = parameter.detach().clone();
    parameter.copy_(average);
    average.copy_(trained);
  }
}

}  // namespace headwise::train
