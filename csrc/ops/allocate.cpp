#include "csrc/ops/allocate.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/zeros.h>
#include <c10/util/Exception.h>

#include "csrc/kernels/attention/statistics.h"
#include "csrc/ops/checks.h"
#include "csrc/ops/memory.h"

namespace headwise::ops {

namespace {

at::Tensor empty_strided(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                         const at::TensorOptions& options) {
  if (options.device().is_cpu()) {
    return empty_kept(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                      c10::typeMetaToScalarType(options.dtype()));
  }
  return at::empty_strided_symint(sizes, strides, options);
}

}  // namespace

at::Tensor empty_rows(const at::Tensor& rows, const c10::SymInt& width, bool packed) {
  const auto size = [&](int64_t dim) { return rows.sym_size(dim); };
  const c10::SymInt row_stride = size(1) * width;
  if (packed) {
    return empty_strided({size(0), size(1), width}, {row_stride, width, 1}, rows.options());
  }
  return empty_strided({size(0), size(1), size(2), width},
                       {size(2) * row_stride, width, row_stride, 1}, rows.options());
}

at::Tensor empty_row_numbers(const at::Tensor& rows) {
  return at::empty_symint(rows.sym_sizes().slice(0, rows.dim() - 1),
                          rows.options().dtype(sum_dtype(rows)));
}

Gradients allocate_gradients(const Call& call, bool bias_gradient) {
  const auto like = [&](const at::Tensor& tensor) {
    return empty_rows(tensor, tensor.sym_sizes().back(), call.packed());
  };
  Gradients gradients{like(call.query), like(call.key), like(call.value), {}};
  if (bias_gradient) {
    TORCH_CHECK_VALUE(call.options.bias.has_value(),
                      "attention_backward: bias_gradient is true and no bias came");
    gradients.bias = at::zeros_symint(call.options.bias->sym_sizes(),
                                      call.query.options().dtype(sum_dtype(call.query)));
  } else {
    gradients.bias = at::empty({0}, call.query.options());
  }
  return gradients;
}

at::Tensor zero_weights(const Call& call) {
  if (call.packed()) {
    const Packing& packing = *call.packing;
    return at::zeros_symint({packing.query_starts.sym_size(0) - 1, call.query.sym_size(1),
                             packing.max_query, packing.max_key},
                            call.query.options());
  }
  return at::zeros_symint({call.query.sym_size(0), call.query.sym_size(1), call.query.sym_size(2),
                           call.key.sym_size(2)},
                          call.query.options());
}

at::Tensor empty_statistics(const Call& call) {
  const c10::SymInt sequences =
      call.packed() ? call.packing->query_starts.sym_size(0) - 1 : call.query.sym_size(0);
  return at::empty_symint({sequences, call.query.sym_size(1), kernels::kStatisticsColumns},
                          call.query.options().dtype(sum_dtype(call.query)));
}

}  // namespace headwise::ops
