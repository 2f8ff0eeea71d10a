// Linear layers that share their input, multiplied as bfloat16, for C++ callers; goes through the
// dispatcher. Glossary: N rows, E width of the input, J width of a layer's output.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

namespace headwise {

/// x weight^T + bias for each of one to three layers: x (N, E), weights (J, E), biases one (J) for
/// each or none at all, all float32, E and every J multiples of 32. Factors are rounded to bfloat16
/// inside of the products, forward and backward; sums, results and gradients are float32. With
/// AVX512_BF16 twice as fast as float32, elsewhere no faster. Differentiable once. The same
/// bits for every number of threads.
/// @throws c10::Error naming the argument, what came and what is required.
std::vector<at::Tensor> linear_bfloat16(const at::Tensor& x, at::TensorList weights,
                                        at::TensorList biases);

/// Whether this processor, with the instruction set in use, multiplies bfloat16 itself
/// (AVX512_BF16). Without, linear_bfloat16 multiplies the rounded factors as float32.
bool has_bfloat16_products();

}  // namespace headwise
