#include "csrc/ops/fill.h"

#include <cmath>

#include "csrc/ops/dropout.h"

namespace headwise::ops {

std::array<int64_t, 4> element_strides(const at::Tensor& tensor) {
  std::array<int64_t, 4> strides{};
  const int64_t dim = tensor.dim();
  for (int64_t d = 0; d < dim; ++d) {
    strides[4 - dim + d] = tensor.size(d) == 1 ? 0 : tensor.stride(d);
  }
  return strides;
}

template <typename T>
void fill_options(const AttentionOptions& options, int64_t width,
                  kernels::AttentionInputs<T>& inputs) {
  inputs.rule.causal = options.causal;
  inputs.rule.align_end = options.align == Align::kEnd;
  if (options.window.has_value()) {
    inputs.rule.left = (*options.window)[0];
    inputs.rule.right = (*options.window)[1];
  }
  const OptionalTensor& mask = options.hide.has_value() ? options.hide : options.keep;
  if (mask.has_value()) {
    const auto [batch, head, row, column] = element_strides(*mask);
    inputs.mask.view = {mask->const_data_ptr<bool>(), batch, head, row, column};
    inputs.mask.hidden_value = options.hide.has_value();
  }
  if (options.bias.has_value()) {
    const auto [batch, head, row, column] = element_strides(*options.bias);
    inputs.bias = {options.bias->const_data_ptr(),
                   options.bias->scalar_type() == at::kFloat,
                   batch,
                   head,
                   row,
                   column};
  }
  inputs.scale = options.scale.value_or(1.0 / std::sqrt(static_cast<double>(width)));
  inputs.dropout = dropout_numbers({options.dropout, options.seed, options.offset});
}

template <typename T>
void fill_inputs(const Call& call, const Positions& positions,
                 kernels::AttentionInputs<T>& inputs) {
  const int64_t last = call.query.dim() - 1;
  inputs.heads = call.query.size(1);
  inputs.kv_heads = call.key.size(1);
  inputs.width = call.query.size(last);
  inputs.sequences = positions.sequences;
  inputs.query = view_of<const T>(call.query, call.packed());
  inputs.key = view_of<const T>(call.key, call.packed());
  if (call.value.defined()) {
    inputs.value_width = call.value.size(last);
    inputs.value = view_of<const T>(call.value, call.packed());
  }
  fill_options(call.options, inputs.width, inputs);
}

using kernels::AttentionInputs;
template void fill_options(const AttentionOptions&, int64_t, AttentionInputs<float>&);
template void fill_options(const AttentionOptions&, int64_t, AttentionInputs<double>&);
template void fill_options(const AttentionOptions&, int64_t, AttentionInputs<kernels::BFloat16>&);
template void fill_options(const AttentionOptions&, int64_t, AttentionInputs<kernels::Half>&);
template void fill_inputs(const Call&, const Positions&, AttentionInputs<float>&);
template void fill_inputs(const Call&, const Positions&, AttentionInputs<double>&);
template void fill_inputs(const Call&, const Positions&, AttentionInputs<kernels::BFloat16>&);
template void fill_inputs(const Call&, const Positions&, AttentionInputs<kernels::Half>&);

}  // namespace headwise::ops
