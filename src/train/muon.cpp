#include "src/train/muon.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace headwise::train {

Muon::Muon(std::vector<at::Tensor> matrices, double momentum)
    : momentum_(momentum), matrices_(std::move(matrices)) {
  for (const at::Tensor& matrix : matrices_) momenta_.push_back(at::zeros_like(matrix.detach()));
}

void Muon::update(double rate, double weight_decay) {
  // A matrix is one thread's: its products do not depend on how many there are.
  at::parallel_for(0, static_cast<int64_t>(matrices_.size()), 1, [&](int64_t begin, int64_t end) {
    const at::NoGradGuard no_grad;
    for (int64_t i = begin; i < end; ++i) {
      const at::Tensor& matrix = matrices_[i];
      const at::Tensor gradient = matrix.grad();
      momenta_[i].lerp_(gradient, 1 - momentum_);
      const at::Tensor ahead = gradient.lerp(momenta_[i], momentum_);
      const double stretch = std::sqrt(std::max(1.0, double(matrix.size(0)) / matrix.size(1)));
      at::Tensor values = matrix.detach();
      values.mul_(1 - rate * weight_decay).sub_(orthogonalized(ahead), rate * stretch);
    }
  });
}

at::Tensor orthogonalized(const at::Tensor& matrix) {
  constexpr double kLinear = 3.4445, kCubic = -4.775, kQuintic = 2.0315;
  constexpr int kSteps = 5;
  const bool is_tall = matrix.size(0) > matrix.size(1);
  const at::Tensor wide = is_tall ? matrix.t() : matrix;
  at::Tensor x = wide / wide.norm().clamp_min(1e-7);
  for (int step = 0; step < kSteps; ++step) {
    const at::Tensor gram = at::mm(x, x.t());
    const at::Tensor factor = at::addmm(gram, gram, gram, kCubic, kQuintic);
    x = at::addmm(x, factor, x, kLinear, 1);
  }
  return is_tall ? x.t() : x;
}

}  // namespace headwise::train
