// Muon: updates of matrices whose singular values are all about 1.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace headwise::train {

/// Muon (Jordan et al. 2024, with Nesterov's momentum) on matrices. Bits do not depend on the
/// number of threads.
class Muon {
 public:
  /// `momentum`: decay of the mean of gradients.
  Muon(std::vector<at::Tensor> matrices, double momentum);

  /// Applies the matrices' gradients: W *= 1 - rate * weight_decay;
  /// W -= rate * sqrt(max(1, rows / columns)) * orthogonal(gradient and momentum).
  void update(double rate, double weight_decay);

  /// Means of gradients, in the order of the matrices.
  const std::vector<at::Tensor>& momenta() const { return momenta_; }

 private:
  double momentum_;
  std::vector<at::Tensor> matrices_, momenta_;
};

/// About the nearest matrix with orthonormal rows or columns: five steps of the quintic
/// Newton-Schulz iteration, which leave singular values between 0.7 and 1.2 unless they were below
/// a thousandth of the Frobenius norm.
at::Tensor orthogonalized(const at::Tensor& matrix);

}  // namespace headwise::train
