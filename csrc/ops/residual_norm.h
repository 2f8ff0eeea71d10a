// Residual connection, dropout and layer norm as one op, for C++ callers; goes through the
// dispatcher. Glossary: N rows, E width.
#pragma once

#include <ATen/core/Tensor.h>

#include "csrc/ops/dropout_options.h"

namespace headwise {

struct ResidualNormResult {
  at::Tensor sum;     // (N, E) x + dropout(branch)
  at::Tensor normed;  // (N, E) (sum - mean) / sqrt(variance + epsilon) weight + bias
};

/// Layer norm (Ba et al. 2016) of x + dropout(branch), and that sum itself; both differentiable
/// once. x, branch (N, E), weight, bias (E); float32, bfloat16, float16 (sums in float32) or
/// float64. One pass over the rows each way; the same bits for every number of threads.
/// @throws c10::Error naming the argument, what came and what is required.
ResidualNormResult residual_norm(const at::Tensor& x, const at::Tensor& branch,
                                 const at::Tensor& weight, const at::Tensor& bias,
                                 double epsilon = 1e-5, const DropoutOptions& dropout = {});

}  // namespace headwise
