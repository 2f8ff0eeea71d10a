// Rotary positions (Su et al. 2021): scores depend on the distance of two tokens, not their places.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>

namespace headwise::nn {

/// Turns heads (…, h, D), D even, by the angles of their int64 positions (…).
///
/// Channels i and i + D/2 form a pair that is turned by position / 10000^(2i / D). Angles are
/// computed in at least fp32; the result has the dtype of `heads`.
at::Tensor rotate_by_position(const at::Tensor& heads, const at::Tensor& positions);

/// Cosine and sine (…, D / 2) of the angles that `positions` (…) turn a head of width D by.
std::pair<at::Tensor, at::Tensor> rotary_table(const at::Tensor& positions, int64_t width,
                                               at::ScalarType type);

/// Position of each packed token inside its sequence, (N) int64; starts (B + 1).
at::Tensor packed_positions(const at::Tensor& starts, int64_t tokens);

}  // namespace headwise::nn
