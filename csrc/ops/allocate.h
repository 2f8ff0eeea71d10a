// Results of the ops, allocated alike for real and Meta tensors.
#pragma once

#include "csrc/ops/call.h"

namespace headwise::ops {

/// (B, heads, T, width) with the strides of (B, T, heads, width) memory, so that merging the heads
/// is a view; packed (N, heads, width) contiguous. Sizes and type of `rows`, width apart.
at::Tensor empty_rows(const at::Tensor& rows, const c10::SymInt& width, bool packed);

/// One number a row and head: (B, heads, T), packed (N, heads).
at::Tensor empty_row_numbers(const at::Tensor& rows);

struct Gradients {
  at::Tensor query, key, value;
  at::Tensor bias;  // zeros of the bias's shape in query's dtype, or (0) when not asked for
};
Gradients allocate_gradients(const Call& call, bool bias_gradient);

/// (B, H, T_q, T_k) zeros.
at::Tensor zero_weights(const Call& call);

/// (B, H, number of statistics).
at::Tensor empty_statistics(const Call& call);

}  // namespace headwise::ops
