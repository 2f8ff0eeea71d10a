// Rotary positions as an op, for C++ callers; goes through the dispatcher. Glossary: N rows, H
// heads of a row, D head width, P positions.
#pragma once

#include <ATen/core/Tensor.h>

namespace headwise {

/// heads (N, H, D), D even, with channels i and i + D / 2 of row n turned by the angle whose cosine
/// and sine (P, D / 2) stand in row n mod P; N is a multiple of P (Su et al. 2021). Differentiable
/// in heads any number of times. float32, bfloat16, float16 (turned in float32, with float32 cosine
/// and sine) or float64. The same bits for every number of threads.
/// @throws c10::Error naming the argument, what came and what is required.
at::Tensor rotary(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine);

}  // namespace headwise
