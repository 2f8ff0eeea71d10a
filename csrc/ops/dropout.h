// Dropout's arguments inside the ops.
#pragma once

#include <ATen/core/Tensor.h>

#include "csrc/kernels/dropout.h"
#include "csrc/ops/dropout_options.h"

namespace headwise::ops {

/// @throws c10::Error, naming `op`, for what is impossible; the seed must have come if anything is
///   dropped.
void check_dropout(const char* op, const DropoutOptions& options, const at::Tensor& like);

/// The same with a seed of torch's default generator where one is needed and none came.
DropoutOptions with_seed(const DropoutOptions& options, const at::Tensor& like);

kernels::Dropout dropout_numbers(const DropoutOptions& options);

}  // namespace headwise::ops
