// The attention ops that have no derivative.
#include <torch/library.h>

#include "csrc/ops/dispatch.h"
#include "csrc/ops/refuse_gradient.h"

namespace headwise::ops {

namespace {

at::Tensor or_undefined(const OptionalTensor& tensor) { return tensor.value_or(at::Tensor()); }

TensorQuad backward(const Call& call, const at::Tensor& output_gradient,
                    const OptionalTensor& lse_gradient, const at::Tensor& output,
                    const at::Tensor& lse, bool bias_gradient) {
  TensorQuad result;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    result = BackwardOp::call(call, output_gradient, lse_gradient, output, lse, bias_gradient);
  }
  const auto& [query, key, value, bias] = result;
  refuse_gradient({query, key, value, bias},
                  "attention: double backward is not supported, and the gradient of attention was "
                  "differentiated again",
                  output_gradient, or_undefined(lse_gradient), call.query, call.key, call.value,
                  or_undefined(call.options.bias));
  return result;
}

at::Tensor weights(const Call& call, const at::Tensor& lse) {
  at::Tensor result;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    result = WeightsOp::call(call, lse);
  }
  refuse_gradient({result},
                  "attention_weights: the weights are for looking at and have no derivative", lse,
                  call.query, call.key, or_undefined(call.options.bias));
  return result;
}

at::Tensor statistics(const Call& call, const at::Tensor& value, const at::Tensor& lse) {
  at::Tensor result;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    result = StatisticsOp::call(call, value, lse);
  }
  refuse_gradient({result},
                  "attention_statistics: the statistics are for looking at and have no derivative",
                  value, lse, call.query, call.key, or_undefined(call.options.bias));
  return result;
}

TensorPair decode(const at::Tensor& query, const at::Tensor& key_cache,
                  const at::Tensor& value_cache, const at::Tensor& lengths, bool causal,
                  at::OptionalIntArrayRef window, const OptionalTensor& bias,
                  const OptionalTensor& hide, const OptionalTensor& beam_index,
                  std::optional<double> scale) {
  TensorPair result;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    static const auto op = find_op<DecodeSignature>("headwise::attention_decode");
    result = op.call(query, key_cache, value_cache, lengths, causal, window, bias, hide, beam_index,
                     scale);
  }
  refuse_gradient({std::get<0>(result), std::get<1>(result)},
                  "attention_decode: decoding with a cache is for inference and has no derivative",
                  query, key_cache, value_cache, or_undefined(bias));
  return result;
}

void cache_append(const at::Tensor& key_cache, const at::Tensor& value_cache, const at::Tensor& key,
                  const at::Tensor& value, const at::Tensor& lengths,
                  std::optional<c10::SymInt> max_length) {
  TORCH_CHECK(!torch::autograd::compute_requires_grad(key_cache, value_cache, key, value),
              "cache_append: a tensor came that requires a gradient; the cache is for inference, "
              "call it under no_grad or inference_mode");
  const at::AutoDispatchBelowAutograd below_autograd;
  static const auto op = find_op<CacheAppendSignature>("headwise::cache_append");
  op.call(key_cache, value_cache, key, value, lengths, max_length);
}

/// Counts the versions of the caches, so that autograd notices a change of a tensor it has saved.
void cache_append_counted(const at::Tensor& key_cache, const at::Tensor& value_cache,
                          const at::Tensor& key, const at::Tensor& value, const at::Tensor& lengths,
                          std::optional<c10::SymInt> max_length) {
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    static const auto op = find_op<CacheAppendSignature>("headwise::cache_append");
    op.call(key_cache, value_cache, key, value, lengths, std::move(max_length));
  }
  torch::autograd::impl::bump_version(key_cache);
  torch::autograd::impl::bump_version(value_cache);
}

}  // namespace

TORCH_LIBRARY_IMPL(headwise, Autograd, m) {
  m.impl("attention_backward", TORCH_FN(Padded<&backward>::call));
  m.impl("attention_packed_backward", TORCH_FN(Packed<&backward>::call));
  m.impl("attention_weights", TORCH_FN(PaddedLook<&weights>::call));
  m.impl("attention_weights_packed", TORCH_FN(PackedLook<&weights>::call));
  m.impl("attention_statistics", TORCH_FN(PaddedLook<&statistics>::call));
  m.impl("attention_statistics_packed", TORCH_FN(PackedLook<&statistics>::call));
  m.impl("attention_decode", TORCH_FN(decode));
  m.impl("cache_append", TORCH_FN(cache_append));
}

TORCH_LIBRARY_IMPL(headwise, ADInplaceOrView, m) {
  m.impl("cache_append", TORCH_FN(cache_append_counted));
}

}  // namespace headwise::ops
