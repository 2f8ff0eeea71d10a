#include "csrc/nn/linear_layers.h"

#include "csrc/ops/linear_bfloat16.h"

namespace headwise::nn {

std::vector<at::Tensor> linear_layers_bfloat16(const at::Tensor& x,
                                               at::ArrayRef<torch::nn::Linear> layers) {
  std::vector<at::Tensor> weights, biases;
  for (const torch::nn::Linear& layer : layers) {
    weights.push_back(layer->weight);
    if (layer->bias.defined()) biases.push_back(layer->bias);
  }
  return linear_bfloat16(x, weights, biases);
}

}  // namespace headwise::nn
