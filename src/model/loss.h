// Output layer and label-smoothed cross-entropy in one piece, a few hundred rows at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace headwise::model {

/// Sums over all N labels; divide by the number of labels of an update.
struct Loss {
  at::Tensor smoothed;  // 0-dim, differentiable: (1 - ε)·nll + ε·(mean over all V pieces of -log p)
  double nll = 0;       // unsmoothed, natural log: exp(nll / N) is the perplexity
};

/// hidden (N, E), weight (V, E), labels (N) int64. The N × V scores never exist at once: gradients
/// of a chunk are made right after its scores, so a backward pass only scales them. Smoothing
/// spreads ε evenly over all V pieces (Szegedy et al. 2016); packed batches hold no padding.
Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                          const at::Tensor& labels, double smoothing);

}  // namespace headwise::model
