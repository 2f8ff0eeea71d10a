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

bool is_for_muon(const std::string& name, const at::Tensor& parameter,
                 const config::OptimizerConfig& options) {
  const bool is_in_layer = name.rfind("encoder_", 0) == 0 || name.rfind("decoder_", 0) == 0;
  return options.kind == config::OptimizerKind::kMuon && is_in_layer && parameter.dim() == 2;
}

std::vector<at::Tensor> matrices_for_muon(const io::Tensors& parameters,
                                          const config::OptimizerConfig& options) {
  std::vector<at::Tensor> matrices;
  for (const auto& [name, parameter] : parameters) {
    if (is_for_muon(name, parameter, options)) matrices.push_back(parameter);
  }
  return matrices;
}

}  // namespace

Optimizer::Optimizer(const io::Tensors& parameters, const config::OptimizerConfig& options)
    : options_(options), muon_(matrices_for_muon(parameters, options), options.momentum) {
  for (const auto& [name, parameter] : parameters) {
    parameters_.push_back(parameter);
    parameter.mutable_grad() = at::zeros_like(parameter.detach());
    if (is_for_muon(name, parameter, options)) {
      matrix_names_.push_back(name);
      continue;
    }
    names_.push_back(name);
    own_.push_back(parameter);
    first_moments_.push_back(at::zeros_like(parameter.detach()));
    second_moments_.push_back(at::zeros_like(parameter.detach()));
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
  const std::vector<at::Tensor> steps(own_.size(), at::full({}, double(step), at::kFloat));
  const auto gradients = gradients_of(own_);
  const config::OptimizerConfig& o = options_;
  if (o.kind == config::OptimizerKind::kAdam) {
    at::_fused_adam_(own_, gradients, first_moments_, second_moments_, {}, steps, learning_rate,
                     o.beta1, o.beta2, o.weight_decay, o.epsilon, false, false);
  } else {
    at::_fused_adamw_(own_, gradients, first_moments_, second_moments_, {}, steps, learning_rate,
                      o.beta1, o.beta2, o.weight_decay, o.epsilon, false, false);
  }
  muon_.update(learning_rate * o.matrix_rate, o.weight_decay);
}

io::Tensors Optimizer::state() const {
  io::Tensors state;
  for (size_t i = 0; i < names_.size(); ++i) {
    state["first_moment." + names_[i]] = first_moments_[i];
    state["second_moment." + names_[i]] = second_moments_[i];
  }
  for (size_t i = 0; i < matrix_names_.size(); ++i) {
    state["first_moment." + matrix_names_[i]] = muon_.momenta()[i];
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
