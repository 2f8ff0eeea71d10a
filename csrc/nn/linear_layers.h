// torch's linear layers, multiplied as bfloat16.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/modules/linear.h>

#include <vector>

namespace headwise::nn {

/// What up to three layers make of the same x (N, E): linear_bfloat16 on their weights and biases.
/// All layers have biases or none has.
std::vector<at::Tensor> linear_layers_bfloat16(const at::Tensor& x,
                                               at::ArrayRef<torch::nn::Linear> layers);

}  // namespace headwise::nn
