// What the fused bias, activation and dropout see. Glossary: N rows, F width.
#pragma once

#include <cstdint>

#include "csrc/kernels/dropout.h"
#include "csrc/kernels/plan.h"

namespace headwise::kernels {

enum class RowActivation { kNone, kRelu };

/// y = dropout(activation(x + bias)). C is float or double. Rows lie `stride` apart, a multiple of
/// kWidthMultiple; what lies past the width is rubbish in the results.
template <typename C>
struct ActivationDropoutParams {
  static constexpr int64_t kWidthMultiple = 64 / sizeof(C);

  int64_t rows = 0, width = 0, stride = 0;  // N, F, distance of rows
  RowActivation activation = RowActivation::kNone;
  const C* x = nullptr;     // (N, F)
  const C* bias = nullptr;  // (F) with room for the stride, or null
  Dropout dropout;
  C* y = nullptr;  // (N, F)
};

/// Its gradients. ReLU reads from y what it and dropout have let through.
template <typename C>
struct ActivationDropoutGradientParams {
  static constexpr int64_t kWidthMultiple = ActivationDropoutParams<C>::kWidthMultiple;

  int64_t rows = 0, width = 0, stride = 0;
  RowActivation activation = RowActivation::kNone;
  const C* y = nullptr;  // (N, F); null without activation
  const C* y_gradient = nullptr;
  Dropout dropout;
  C* x_gradient = nullptr;     // (N, F)
  C* bias_gradient = nullptr;  // (F) or null
};

template <typename C>
Plan plan(const ActivationDropoutParams<C>& params);
template <typename C>
void run(const ActivationDropoutParams<C>& params, size_t phase, const ItemRange& items,
         const Memory& memory);

template <typename C>
Plan plan(const ActivationDropoutGradientParams<C>& params);
template <typename C>
void run(const ActivationDropoutGradientParams<C>& params, size_t phase, const ItemRange& items,
         const Memory& memory);

}  // namespace headwise::kernels
