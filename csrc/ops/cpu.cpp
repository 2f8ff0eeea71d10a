// CPU kernels of the ops: check, allocate, fill the params, launch, return.
#include <torch/library.h>

#include <limits>

#include "csrc/kernels/attention/plan.h"
#include "csrc/ops/allocate.h"
#include "csrc/ops/checks.h"
#include "csrc/ops/dispatch.h"
#include "csrc/ops/fill.h"
#include "csrc/ops/launch.h"

namespace headwise::ops {

namespace {

template <typename T>
void launch_forward(const Call& call, const Positions& positions, const at::Tensor& output,
                    const at::Tensor& lse) {
  kernels::ForwardParams<T> params;
  fill_inputs(call, positions, params);
  params.output = view_of<T>(output, call.packed());
  params.lse = view_of<kernels::Compute<T>>(lse, call.packed());
  run_on_threads(params);
}

TensorPair forward(const Call& call) {
  check_call(call);
  const Positions positions = read_positions(call);
  const at::Tensor output = empty_rows(call.query, call.value.sym_sizes().back(), call.packed());
  const at::Tensor lse = empty_row_numbers(call.query);
  if (positions.leaves_queries_out(call.query.size(0))) {
    output.zero_();
    lse.fill_(-std::numeric_limits<double>::infinity());
  }
  with_element_type(call.query.scalar_type(), [&](auto type) {
    launch_forward<decltype(type)>(call, positions, output, lse);
  });
  return {output, lse};
}

template <typename T>
void launch_backward(const Call& call, const Positions& positions, const Saved& saved,
                     const Gradients& gradients) {
  kernels::BackwardParams<T> params;
  const bool packed = call.packed();
  fill_inputs(call, positions, params);
  params.output = view_of<const T>(saved.output, packed);
  params.lse = view_of<const kernels::Compute<T>>(saved.lse, packed);
  params.output_gradient = view_of<const T>(saved.output_gradient, packed);
  if (saved.lse_gradient.has_value()) {
    params.lse_gradient = view_of<const kernels::Compute<T>>(*saved.lse_gradient, packed);
  }
  params.query_gradient = view_of<T>(gradients.query, packed);
  params.key_gradient = view_of<T>(gradients.key, packed);
  params.value_gradient = view_of<T>(gradients.value, packed);
  if (gradients.bias.dim() > 1) {
    const auto [batch, head, row, column] = element_strides(gradients.bias);
    params.bias_gradient = {gradients.bias.mutable_data_ptr<kernels::Compute<T>>(), batch, head,
                            row, column};
  }
  run_on_threads(params);
}

TensorQuad backward(const Call& call, const at::Tensor& output_gradient,
                    const OptionalTensor& lse_gradient, const at::Tensor& output,
                    const at::Tensor& lse, bool bias_gradient) {
  const Saved saved{output_gradient, lse_gradient, output, lse};
  check_call(call);
  check_backward(call, saved);
  const Positions positions = read_positions(call);
  Gradients gradients = allocate_gradients(call, bias_gradient);
  if (positions.leaves_queries_out(call.query.size(0))) gradients.query.zero_();
  if (positions.leaves_keys_out(call.key.size(0))) {
    gradients.key.zero_();
    gradients.value.zero_();
  }
  with_element_type(call.query.scalar_type(), [&](auto type) {
    launch_backward<decltype(type)>(call, positions, saved, gradients);
  });
  if (bias_gradient) gradients.bias = gradients.bias.to(call.options.bias->scalar_type());
  return {gradients.query, gradients.key, gradients.value, gradients.bias};
}

template <typename T>
void launch_weights(const Call& call, const Positions& positions, const at::Tensor& lse,
                    const at::Tensor& weights) {
  kernels::WeightsParams<T> params;
  fill_inputs(call, positions, params);
  params.lse = view_of<const kernels::Compute<T>>(lse, call.packed());
  params.weights = view_of<T>(weights, false);
  run_on_threads(params);
}

at::Tensor weights(const Call& call, const at::Tensor& lse) {
  check_call(call);
  check_lse(call, lse);
  const Positions positions = read_positions(call);
  if (call.packed()) {
    const Packing& packing = *call.packing;
    TORCH_CHECK_VALUE(packing.max_query >= positions.sequences.query_rows &&
                          packing.max_key >= positions.sequences.key_rows,
                      "attention_weights: max_query and max_key are ", packing.max_query, " and ",
                      packing.max_key, "; they are the sizes of the result, at least the longest ",
                      "sequences, ", positions.sequences.query_rows, " and ",
                      positions.sequences.key_rows);
  }
  const at::Tensor weights = zero_weights(call);
  with_element_type(call.query.scalar_type(), [&](auto type) {
    launch_weights<decltype(type)>(call, positions, lse, weights);
  });
  return weights;
}

template <typename T>
void launch_statistics(const Call& call, const Positions& positions, const at::Tensor& value,
                       const at::Tensor& lse, const at::Tensor& statistics) {
  kernels::StatisticsParams<T> params;
  fill_inputs(call, positions, params);
  params.value_heads = value.size(1);
  params.value_width = value.size(-1);
  params.value = view_of<const T>(value, call.packed());
  params.lse = view_of<const kernels::Compute<T>>(lse, call.packed());
  params.statistics = statistics.mutable_data_ptr<kernels::Compute<T>>();
  run_on_threads(params);
}

at::Tensor statistics(const Call& call, const at::Tensor& value, const at::Tensor& lse) {
  check_call(call);
  check_statistics(call, value, lse);
  const Positions positions = read_positions(call);
  const at::Tensor statistics = empty_statistics(call);
  with_element_type(call.query.scalar_type(), [&](auto type) {
    launch_statistics<decltype(type)>(call, positions, value, lse, statistics);
  });
  return statistics;
}

}  // namespace

TORCH_LIBRARY_IMPL(headwise, CPU, m) {
  m.impl("attention_forward", TORCH_FN(Padded<&forward>::call));
  m.impl("attention_packed_forward", TORCH_FN(Packed<&forward>::call));
  m.impl("attention_backward", TORCH_FN(Padded<&backward>::call));
  m.impl("attention_packed_backward", TORCH_FN(Packed<&backward>::call));
  m.impl("attention_weights", TORCH_FN(PaddedLook<&weights>::call));
  m.impl("attention_weights_packed", TORCH_FN(PackedLook<&weights>::call));
  m.impl("attention_statistics", TORCH_FN(PaddedLook<&statistics>::call));
  m.impl("attention_statistics_packed", TORCH_FN(PackedLook<&statistics>::call));
}

}  // namespace headwise::ops
