// What the ops on rows of numbers, (N, width), share.
#pragma once

#include <ATen/core/Tensor.h>

namespace headwise::ops {

/// float32, or float64 for float64.
at::ScalarType row_sum_type(const at::Tensor& rows);

/// A number type the ops know, float64 only together with float64. The message names `op`, `name`
/// and, of the other tensor, `with`.
void check_row_type(const char* op, const char* name, const at::Tensor& tensor, const char* with,
                    const at::Tensor& other);

/// Contiguous in the type of the sums, widths padded by zeros to a multiple.
at::Tensor prepared_rows(const at::Tensor& tensor, at::ScalarType type, int64_t multiple);

/// Kept memory of the same sizes, type and strides.
at::Tensor room_like(const at::Tensor& tensor);

/// A kernel's result in the shape and type of `like`.
at::Tensor returned_rows(const at::Tensor& result, const at::Tensor& like);

}  // namespace headwise::ops
