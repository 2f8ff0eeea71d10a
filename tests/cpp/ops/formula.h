// Attention as a plain formula in ATen, differentiable: the judge of the op.
#pragma once

#include <ATen/ATen.h>

#include <cmath>
#include <limits>
#include <optional>

#include "csrc/ops/attention.h"

namespace headwise::testing {

struct Formula {
  at::Tensor output, lse, weights;  // weights before dropout
};

/// hidden: bool, broadcastable to (B, H, T_q, T_k); factor multiplies the weights (dropout).
inline Formula formula(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                       const std::optional<at::Tensor>& hidden = std::nullopt,
                       const std::optional<at::Tensor>& bias = std::nullopt,
                       std::optional<double> scale = std::nullopt,
                       const std::optional<at::Tensor>& factor = std::nullopt) {
  const int64_t group = query.size(1) / key.size(1);
  const at::Tensor keys = key.repeat_interleave(group, 1);
  const at::Tensor values = value.repeat_interleave(group, 1);
  at::Tensor scores = at::matmul(query, keys.transpose(-1, -2)) *
                      scale.value_or(1.0 / std::sqrt(static_cast<double>(query.size(-1))));
  if (bias) scores = scores + *bias;
  constexpr double kHidden = -std::numeric_limits<double>::infinity();
  if (hidden) scores = scores.masked_fill(*hidden, kHidden);
  // Rows that see nothing get weight 0, in a way that has no NaN in its gradient either.
  const at::Tensor empty = (scores == kHidden).all(-1, /*keepdim=*/true);
  Formula result;
  const at::Tensor safe = scores.masked_fill(empty, 0.0);
  result.weights = safe.softmax(-1).masked_fill(empty, 0.0);
  result.lse = safe.logsumexp(-1).masked_fill(empty.squeeze(-1), kHidden);
  result.output = at::matmul(factor ? result.weights * *factor : result.weights, values);
  return result;
}

/// Keys hidden by causal order with the ends lined up, (T_q, T_k).
inline at::Tensor future(int64_t queries, int64_t keys) {
  return at::ones({queries, keys}, at::kBool).triu(1 + keys - queries);
}

inline at::Tensor randn(at::IntArrayRef sizes, at::ScalarType type = at::kDouble) {
  return at::randn(sizes, type);
}

/// Largest difference relative to the largest number of `want`.
inline double difference(const at::Tensor& got, const at::Tensor& want) {
  if (got.sizes() != want.sizes()) return std::numeric_limits<double>::infinity();
  if (want.numel() == 0) return 0.0;
  const at::Tensor a = got.detach().to(at::kDouble), b = want.detach().to(at::kDouble);
  const at::Tensor infinite = a.eq(b);  // infinities that agree
  const at::Tensor gap = (a - b).abs().masked_fill(infinite, 0.0);
  const at::Tensor size = b.abs().masked_fill(b.isinf(), 0.0);
  return gap.max().item<double>() / std::max(1e-30, size.max().item<double>());
}

}  // namespace headwise::testing
