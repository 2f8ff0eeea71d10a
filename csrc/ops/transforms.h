// What torch.func and forward-mode differentiation get to hear.
#pragma once

#include "csrc/ops/call.h"

namespace headwise::ops {

/// For the autograd kernels, which know one level of reverse mode.
/// @throws c10::NotImplementedError inside torch.func.grad, vjp, jvp and what is made of them, and
/// for an input with a forward-mode tangent.
void refuse_transforms(const Call& call);

}  // namespace headwise::ops
