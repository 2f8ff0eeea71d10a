// Under autocast query, key and value are cast as those of scaled_dot_product_attention: float32
// and 16-bit numbers to autocast's type, float64 never. bias keeps its type, and so does the
// log-sum-exp: both may be more exact than the inputs.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

#include "csrc/ops/dispatch.h"

namespace headwise::ops {

namespace {

template <c10::DeviceType kDevice>
Call cast(const Call& call) {
  const at::ScalarType type = at::autocast::get_autocast_dtype(kDevice);
  const auto cast_one = [&](const at::Tensor& tensor) {
    return tensor.defined() ? at::autocast::cached_cast(type, tensor, kDevice) : tensor;
  };
  Call result = call;
  result.query = cast_one(call.query);
  result.key = cast_one(call.key);
  result.value = cast_one(call.value);
  return result;
}

/// Calls below the guard see no autocast, so that they arrive at the ops proper.
template <c10::DeviceType kDevice>
c10::DispatchKeySet autocast_key() {
  return c10::DispatchKeySet(at::autocast::get_autocast_dispatch_key_from_device_type(kDevice));
}

template <c10::DeviceType kDevice>
TensorPair attention(const Call& call) {
  const c10::impl::ExcludeDispatchKeyGuard below_autocast(autocast_key<kDevice>());
  return AttentionOp::call(cast<kDevice>(call));
}

template <c10::DeviceType kDevice>
at::Tensor weights(const Call& call, const at::Tensor& lse) {
  const c10::impl::ExcludeDispatchKeyGuard below_autocast(autocast_key<kDevice>());
  return WeightsOp::call(cast<kDevice>(call), lse);
}

template <c10::DeviceType kDevice>
void register_casts(torch::Library& m) {
  m.impl("attention", TORCH_FN(Padded<&attention<kDevice>>::call));
  m.impl("attention_packed", TORCH_FN(Packed<&attention<kDevice>>::call));
  m.impl("attention_weights", TORCH_FN(PaddedLook<&weights<kDevice>>::call));
  m.impl("attention_weights_packed", TORCH_FN(PackedLook<&weights<kDevice>>::call));
}

}  // namespace

TORCH_LIBRARY_IMPL(headwise, AutocastCPU, m) { register_casts<c10::DeviceType::CPU>(m); }
TORCH_LIBRARY_IMPL(headwise, AutocastCUDA, m) { register_casts<c10::DeviceType::CUDA>(m); }

}  // namespace headwise::ops
