// Ops without a derivative say so when one is asked of them; a silently missing gradient would
// train on noise.
#pragma once

#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/variable.h>

#include <memory>

namespace headwise::ops {

/// Ties results to a node that raises `message` when it is differentiated.
template <typename... Inputs>
void refuse_gradient(const torch::autograd::variable_list& results, const char* message,
                     const Inputs&... inputs) {
  if (!torch::autograd::compute_requires_grad(inputs...)) return;
  const std::shared_ptr<torch::autograd::Node> node(
      new torch::autograd::Error(message, torch::autograd::collect_next_edges(inputs...)),
      torch::autograd::deleteNode);
  for (const at::Tensor& result : results) torch::autograd::set_history(result, node);
}

}  // namespace headwise::ops
