// Adam, AdamW and Muon over a model's parameters, global-norm clipping, exponential moving average.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/io/model_io.h"
#include "src/train/muon.h"

namespace headwise::train {

/// Adam (Kingma & Ba 2015; weight decay added to the gradient) or AdamW (Loshchilov & Hutter 2019)
/// by torch's fused CPU kernel; or Muon on the matrices inside layers (names that begin with
/// "encoder_" or "decoder_") and AdamW on everything else. Moments have the names of their
/// parameters.
class Optimizer {
 public:
  /// Gives each parameter a gradient of zeros.
  Optimizer(const io::Tensors& parameters, const config::OptimizerConfig& options);

  /// L2 norm over all gradients together; not finite if any entry is not.
  double gradient_norm() const;
  void scale_gradients(double factor);
  /// Applies the gradients; `step` counts this update (1-based) and corrects the moments' bias.
  void update(double learning_rate, int64_t step);

  /// first_moment.NAME and second_moment.NAME, sharing storage; Muon's matrices have the first
  /// alone.
  io::Tensors state() const;

 private:
  config::OptimizerConfig options_;
  std::vector<at::Tensor> parameters_;
  // Of Adam:
  std::vector<std::string> names_;
  std::vector<at::Tensor> own_, first_moments_, second_moments_;
  // Of Muon:
  std::vector<std::string> matrix_names_;
  Muon muon_;
};

/// A moving average of parameters: average += (1 - decay') (parameter - average), where
/// decay' = min(decay, (1 + step) / (10 + step)) lets it follow the first updates.
class MovingAverage {
 public:
  MovingAverage(const io::Tensors& parameters, double decay);

  void update(int64_t step);
  /// Exchanges averaged and trained values in place; twice is the identity.
  void swap();
  const io::Tensors& averages() const { return averages_; }

 private:
  double decay_;
  io::Tensors parameters_, averages_;
};

/// Averages stand in for the trained values for as long as this lives. Null does nothing.
class AveragedScope {
 public:
  explicit AveragedScope(MovingAverage* average) : average_(average) {
    if (average_ != nullptr) average_->swap();
  }
  ~AveragedScope() {
    if (average_ != nullptr) average_->swap();
  }
  AveragedScope(const AveragedScope&) = delete;
  AveragedScope& operator=(const AveragedScope&) = delete;

 private:
  MovingAverage* average_;
};

}  // namespace headwise::train
