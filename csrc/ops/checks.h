// What a call must satisfy. Everything here looks at sizes, types and devices only, so that it
// holds for Meta tensors too; what needs the numbers in a tensor (lengths, starts) is checked in
// positions.h.
#pragma once

#include "csrc/ops/call.h"

namespace headwise::ops {

/// @throws c10::ValueError naming the argument, what came and what is required.
void check_call(const Call& call);

/// What a forward pass gave and what comes from above.
void check_lse(const Call& call, const at::Tensor& lse);
void check_statistics(const Call& call, const at::Tensor& value, const at::Tensor& lse);
struct Saved {
  const at::Tensor& output_gradient;
  const OptionalTensor& lse_gradient;
  const at::Tensor &output, &lse;
};
void check_backward(const Call& call, const Saved& saved);

/// Type of the log-sum-exp and of sums: float32, or float64 for float64.
at::ScalarType sum_dtype(const at::Tensor& query);

/// Pieces that decoding shares.
void check_dtype(const at::Tensor& query);
void check_kind(const char* name, const at::Tensor& tensor, int64_t dim, const at::Tensor& query);
void check_heads(const c10::SymInt& heads, const c10::SymInt& kv_heads, const char* key_name);
void check_width(const char* name, const c10::SymInt& width);
void check_int_vector(const char* name, const at::Tensor& tensor, const c10::SymInt& size,
                      const at::Tensor& query);
/// sizes: (B, H, T_q, T_k) as required; a negative size is not checked.
void check_element_tensor(const char* name, const at::Tensor& tensor, c10::SymIntArrayRef sizes,
                          const at::Tensor& query);
void check_mask_dtype(const char* name, const at::Tensor& mask);
void check_bias_dtype(const at::Tensor& bias, const at::Tensor& query);
void check_window(const std::optional<std::array<int64_t, 2>>& window);
void check_scale(const std::optional<double>& scale);

}  // namespace headwise::ops
