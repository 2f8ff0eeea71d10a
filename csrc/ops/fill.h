// From tensors to the plain structs of the kernels.
#pragma once

#include "csrc/kernels/attention/params.h"
#include "csrc/ops/call.h"
#include "csrc/ops/positions.h"

namespace headwise::ops {

/// View of (B, heads, rows[, width]); with packed, of (N, heads[, width]). T is the kernels' type
/// of the tensor's dtype.
template <typename T>
kernels::View<T> view_of(const at::Tensor& tensor, bool packed) {
  kernels::View<T> view;
  if constexpr (std::is_const_v<T>) {
    view.data = static_cast<T*>(tensor.const_data_ptr());
  } else {
    view.data = static_cast<T*>(tensor.mutable_data_ptr());
  }
  const int64_t row = packed ? 0 : 2;
  view.batch = packed ? 0 : tensor.stride(0);
  view.head = tensor.stride(1);
  view.row = tensor.stride(row);
  const int64_t width = packed ? 2 : 3;
  view.column = tensor.dim() > width ? tensor.stride(width) : 1;
  return view;
}

/// Strides of a (T_q, T_k) or 4-D tensor over (B, H, T_q, T_k), 0 where it broadcasts.
std::array<int64_t, 4> element_strides(const at::Tensor& tensor);

/// Mask rule, element mask, bias, scale and dropout; the same for every form.
template <typename T>
void fill_options(const AttentionOptions& options, int64_t width,
                  kernels::AttentionInputs<T>& inputs);

/// Everything that decides the weights. `positions` must outlive the params.
template <typename T>
void fill_inputs(const Call& call, const Positions& positions, kernels::AttentionInputs<T>& inputs);

/// Calls run(T()) with the kernels' type of a dtype that check_dtype lets pass.
template <typename Run>
void with_element_type(at::ScalarType dtype, const Run& run) {
  switch (dtype) {
    case at::kDouble:
      return run(double());
    case at::kBFloat16:
      return run(kernels::BFloat16());
    case at::kHalf:
      return run(kernels::Half());
    default:
      return run(float());
  }
}

}  // namespace headwise::ops
