// Rotary positions (Su et al. 2021): scores depend on the distance of two tokens, not their places.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace headwise::nn {

/// Cosine and sine (P, D / 2) of the angles that P positions turn a head of width D by; undefined
/// where nothing turns.
struct RotaryTable {
  at::Tensor cosine, sine;
};

/// Channels i and i + D / 2 form a pair that is turned by position / 10000^(2i / D). Positions (P)
/// are int64; `type` is that of the heads, whose angles are computed in at least float32.
RotaryTable rotary_table(const at::Tensor& positions, int64_t width, at::ScalarType type);

/// Turns heads (…, P, h, D), D even, by the angles of their positions; or nothing, where the table
/// is undefined.
at::Tensor rotate_by_position(const at::Tensor& heads, const RotaryTable& table);

/// Position of each packed token inside its sequence, (N) int64; starts (B + 1).
at::Tensor packed_positions(const at::Tensor& starts, int64_t tokens);

}  // namespace headwise::nn
