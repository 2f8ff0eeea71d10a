// Output layer and cross-entropy as one op, for C++ callers; goes through the dispatcher. Glossary:
// N rows, E width, V classes.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace headwise {

struct LinearCrossEntropyOptions {
  std::optional<at::Tensor> bias = {};        // (V), added to the scores; differentiable
  std::optional<at::Tensor> row_weight = {};  // (N), factors of the rows' losses; no gradient
  /// Share of the target that is spread evenly over all V classes, 0 to 1 (Szegedy et al. 2016).
  double label_smoothing = 0.0;
  int64_t ignore_index = -100;  // rows with this label are left out
  /// Factors of the products, exponentials of scores included, are rounded to bfloat16 as in
  /// linear_bfloat16; all sums stay float32. Not for float64.
  bool bfloat16_products = false;
  /// R-Drop (Liang et al. 2021): rows 2n and 2n + 1 are one position under two dropouts, with
  /// predictions p and q, and each such pair adds consistency / 2 (KL(p, q) + KL(q, p)) to the
  /// loss, times the mean of both row weights; nothing where one of them is left out.
  double consistency = 0.0;
};

struct LinearCrossEntropyResult {
  at::Tensor loss;  // 0-dim float32 (float64 for float64): sum over rows of (1 - s) nll + s (mean
                    // over classes of -log p), s the smoothing; differentiable once
  at::Tensor nll;   // 0-dim float64: sum over rows of -log p of the label; no gradient
};

/// softmax cross-entropy of hidden (N, E) weight (V, E)^T + bias against labels (N) int64. The N x
/// V scores never exist at once: a chunk's gradients are made right after its scores, and backward
/// only scales them. float32, bfloat16, float16 (sums in float32; hidden and weight may differ) or
/// float64. The same bits for every number of threads.
/// @throws c10::Error naming the argument, what came and what is required.
LinearCrossEntropyResult linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                              const at::Tensor& labels,
                                              const LinearCrossEntropyOptions& options = {});

}  // namespace headwise
