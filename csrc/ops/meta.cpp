// Shapes, types and strides without numbers: what torch.compile and fake tensors see. The same
// checks and the same allocations as on a real device.
#include <torch/library.h>

#include "csrc/ops/allocate.h"
#include "csrc/ops/checks.h"
#include "csrc/ops/decode.h"
#include "csrc/ops/dispatch.h"

namespace headwise::ops {

namespace {

TensorPair forward(const Call& call) {
  check_call(call);
  return {empty_rows(call.query, call.value.sym_sizes().back(), call.packed()),
          empty_row_numbers(call.query)};
}

TensorQuad backward(const Call& call, const at::Tensor& output_gradient,
                    const OptionalTensor& lse_gradient, const at::Tensor& output,
                    const at::Tensor& lse, bool bias_gradient) {
  check_call(call);
  check_backward(call, {output_gradient, lse_gradient, output, lse});
  Gradients gradients = allocate_gradients(call, bias_gradient);
  if (bias_gradient) gradients.bias = gradients.bias.to(call.options.bias->scalar_type());
  return {gradients.query, gradients.key, gradients.value, gradients.bias};
}

at::Tensor weights(const Call& call, const at::Tensor& lse) {
  check_call(call);
  check_lse(call, lse);
  return zero_weights(call);
}

at::Tensor statistics(const Call& call, const at::Tensor& value, const at::Tensor& lse) {
  check_call(call);
  check_statistics(call, value, lse);
  return empty_statistics(call);
}

TensorPair decode(const at::Tensor& query, const at::Tensor& key_cache,
                  const at::Tensor& value_cache, const at::Tensor& lengths, bool causal,
                  at::OptionalIntArrayRef window, const OptionalTensor& bias,
                  const OptionalTensor& hide, const OptionalTensor& beam_index,
                  std::optional<double> scale) {
  const DecodeCall call{query, key_cache, value_cache, lengths, causal, parse_window(window),
                        bias,  hide,      beam_index,  scale};
  check_decode(call);
  return {empty_rows(query, value_cache.sym_size(3), false), empty_row_numbers(query)};
}

void cache_append(const at::Tensor& key_cache, const at::Tensor& value_cache, const at::Tensor& key,
                  const at::Tensor& value, const at::Tensor& lengths,
                  std::optional<c10::SymInt> max_length) {
  check_cache_append({key_cache, value_cache, key, value, lengths, max_length});
}

}  // namespace

TORCH_LIBRARY_IMPL(headwise, Meta, m) {
  m.impl("attention_forward", TORCH_FN(Padded<&forward>::call));
  m.impl("attention_packed_forward", TORCH_FN(Packed<&forward>::call));
  m.impl("attention_backward", TORCH_FN(Padded<&backward>::call));
  m.impl("attention_packed_backward", TORCH_FN(Packed<&backward>::call));
  m.impl("attention_weights", TORCH_FN(PaddedLook<&weights>::call));
  m.impl("attention_weights_packed", TORCH_FN(PackedLook<&weights>::call));
  m.impl("attention_statistics", TORCH_FN(PaddedLook<&statistics>::call));
  m.impl("attention_statistics_packed", TORCH_FN(PackedLook<&statistics>::call));
  m.impl("attention_decode", TORCH_FN(decode));
  m.impl("cache_append", TORCH_FN(cache_append));
}

}  // namespace headwise::ops
