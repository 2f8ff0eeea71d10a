#include "csrc/ops/transforms.h"

#include <ATen/FuncTorchTLS.h>
#include <c10/util/Exception.h>

namespace headwise::ops {

namespace {

/// Whether torch itself would refuse a C++ autograd function here, without saying whose it is.
bool inside_a_derivative_of_torch_func() {
  const auto& state = at::functorch::functorchTLSAccessor();
  if (!state) return false;
  try {
    state->checkSupportsCppAutogradFunction();
  } catch (const c10::Error&) {
    return true;
  }
  return false;
}

bool has_tangent(const at::Tensor& tensor) {
  return tensor.defined() && tensor._fw_grad(/*level=*/0).defined();
}

}  // namespace

void refuse_transforms(const Call& call) {
  TORCH_CHECK_NOT_IMPLEMENTED(
      !inside_a_derivative_of_torch_func(),
      "attention: torch.func.grad, vjp, jvp and what is made of them (jacrev, hessian) are not "
      "supported; use torch.autograd.grad or backward. torch.func.vmap works");
  const at::Tensor bias = call.options.bias.value_or(at::Tensor());
  TORCH_CHECK_NOT_IMPLEMENTED(!has_tangent(call.query) && !has_tangent(call.key) &&
                                  !has_tangent(call.value) && !has_tangent(bias),
                              "attention: forward-mode differentiation is not supported; use "
                              "torch.autograd.grad or backward");
}

}  // namespace headwise::ops
