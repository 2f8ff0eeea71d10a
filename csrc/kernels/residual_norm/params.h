// What the fused residual connection and layer norm see. Glossary: N rows, E width.
#pragma once

#include <cstdint>

#include "csrc/kernels/dropout.h"
#include "csrc/kernels/plan.h"

namespace headwise::kernels {

/// sum = x + dropout(branch), normed = (sum - mean) / sqrt(variance + epsilon) weight + bias, with
/// the mean and the (biased) variance of each row (Ba et al. 2016). C is float or double. Rows lie
/// `stride` apart, a multiple of kWidthMultiple; what lies past the width is finite in the inputs
/// and rubbish in the results.
template <typename C>
struct ResidualNormParams {
  static constexpr int64_t kWidthMultiple = 64 / sizeof(C);

  int64_t rows = 0, width = 0, stride = 0;  // N, E, distance of rows
  const C* x = nullptr;                     // (N, E)
  const C* branch = nullptr;                // (N, E)
  const C* weight = nullptr;                // (E), room for the stride
  const C* bias = nullptr;                  // (E), room for the stride
  double epsilon = 0;
  Dropout dropout;
  C* sum = nullptr;      // (N, E)
  C* normed = nullptr;   // (N, E)
  C* mean = nullptr;     // (N)
  C* inverse = nullptr;  // (N) 1 / sqrt(variance + epsilon)
};

/// Its gradients; inputs and results likewise.
template <typename C>
struct ResidualNormGradientParams {
  static constexpr int64_t kWidthMultiple = ResidualNormParams<C>::kWidthMultiple;

  int64_t rows = 0, width = 0, stride = 0;
  const C* sum = nullptr;
  const C* mean = nullptr;
  const C* inverse = nullptr;
  const C* weight = nullptr;
  const C* sum_gradient = nullptr;  // (N, E) or null = 0
  const C* normed_gradient = nullptr;
  Dropout dropout;
  C* x_gradient = nullptr;       // (N, E)
  C* branch_gradient = nullptr;  // (N, E) or null: the same as x_gradient, without dropout
  C* weight_gradient = nullptr;  // (E)
  C* bias_gradient = nullptr;    // (E)
};

template <typename C>
Plan plan(const ResidualNormParams<C>& params);
template <typename C>
void run(const ResidualNormParams<C>& params, size_t phase, const ItemRange& items,
         const Memory& memory);

template <typename C>
Plan plan(const ResidualNormGradientParams<C>& params);
template <typename C>
void run(const ResidualNormGradientParams<C>& params, size_t phase, const ItemRange& items,
         const Memory& memory);

}  // namespace headwise::kernels
