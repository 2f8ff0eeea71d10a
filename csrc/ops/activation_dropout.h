// Bias, activation and dropout as one op, for C++ callers; goes through the dispatcher. Glossary: N
// rows, F width.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string_view>

#include "csrc/ops/dropout_options.h"

namespace headwise {

/// dropout(activation(x + bias)) of x (N, F), bias (F); differentiable once. `activation` is "relu"
/// or "none". float32, bfloat16, float16 (sums in float32) or float64. One pass over the rows each
/// way; the same bits for every number of threads.
/// @throws c10::Error naming the argument, what came and what is required.
at::Tensor activation_dropout(const at::Tensor& x, const std::optional<at::Tensor>& bias,
                              std::string_view activation, const DropoutOptions& dropout = {});

}  // namespace headwise
