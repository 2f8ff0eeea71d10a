#include "csrc/ops/rows.h"

#include <ATen/ops/constant_pad_nd.h>
#include <c10/util/Exception.h>

#include "csrc/ops/memory.h"

namespace headwise::ops {

at::ScalarType row_sum_type(const at::Tensor& rows) {
  return rows.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

void check_row_type(const char* op, const char* name, const at::Tensor& tensor, const char* with,
                    const at::Tensor& other) {
  const at::ScalarType type = tensor.scalar_type();
  const bool known =
      type == at::kFloat || type == at::kDouble || type == at::kBFloat16 || type == at::kHalf;
  TORCH_CHECK_TYPE(known, op, ": ", name, " is ", type,
                   "; float32, bfloat16, float16 or float64 is needed");
  TORCH_CHECK_TYPE((type == at::kDouble) == (other.scalar_type() == at::kDouble), op, ": ", name,
                   " is ", type, " and ", with, " ", other.scalar_type(),
                   "; float64 goes with float64 alone");
}

at::Tensor prepared_rows(const at::Tensor& tensor, at::ScalarType type, int64_t multiple) {
  const at::Tensor numbers = tensor.to(type).contiguous();
  const int64_t rest = numbers.size(-1) % multiple;
  return rest == 0 ? numbers : at::constant_pad_nd(numbers, {0, multiple - rest});
}

at::Tensor room_like(const at::Tensor& tensor) {
  return empty_kept(tensor.sizes(), tensor.strides(), tensor.scalar_type());
}

at::Tensor returned_rows(const at::Tensor& result, const at::Tensor& like) {
  return result.narrow(-1, 0, like.size(-1)).to(like.scalar_type()).contiguous();
}

}  // namespace headwise::ops
