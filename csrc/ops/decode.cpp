// CPU kernels of decoding with a cache.
#include "csrc/ops/decode.h"

#include <ATen/Parallel.h>
#include <torch/library.h>

#include "csrc/kernels/attention/cache.h"
#include "csrc/kernels/attention/plan.h"
#include "csrc/ops/allocate.h"
#include "csrc/ops/fill.h"
#include "csrc/ops/launch.h"

namespace headwise::ops {

namespace {

/// Every cache row that will be read must exist.
void check_beam_rows(const DecodeCall& call, const int64_t* lengths) {
  const at::Tensor index = call.beam_index->contiguous();
  const int64_t rows = call.key_cache.size(0);
  for (int64_t b = 0; b < index.size(0); ++b) {
    const int64_t positions = index.dim() == 1 ? 1 : lengths[b];
    const int32_t* row =
        index.const_data_ptr<int32_t>() + (index.dim() == 1 ? b : b * index.size(1));
    for (int64_t j = 0; j < positions; ++j) {
      TORCH_CHECK_VALUE(row[j] >= 0 && row[j] < rows, "attention_decode: beam_index of sequence ",
                        b, ", position ", j, " is ", row[j], "; the cache has rows 0 to ",
                        rows - 1);
    }
  }
}

template <typename T>
void launch_decode(const DecodeCall& call, const at::Tensor& lengths, const at::Tensor& output,
                   const at::Tensor& lse) {
  kernels::ForwardParams<T> params;
  params.heads = call.query.size(1);
  params.kv_heads = call.key_cache.size(1);
  params.width = call.query.size(3);
  params.value_width = call.value_cache.size(3);
  params.sequences.count = call.query.size(0);
  params.sequences.query_rows = call.query.size(2);
  params.sequences.key_rows = call.key_cache.size(2);
  params.sequences.key_lengths = lengths.const_data_ptr<int64_t>();
  params.query = view_of<const T>(call.query, false);
  params.key = view_of<const T>(call.key_cache, false);
  params.value = view_of<const T>(call.value_cache, false);
  if (call.beam_index.has_value()) {
    const at::Tensor& index = *call.beam_index;
    params.beam_index = {index.const_data_ptr<int32_t>(), index.stride(0),
                         index.dim() == 1 ? 0 : index.stride(1)};
  }
  AttentionOptions options;
  options.hide = call.hide;
  options.bias = call.bias;
  options.causal = call.causal;
  options.window = call.window;
  options.scale = call.scale;
  fill_options(options, params.width, params);
  params.output = view_of<T>(output, false);
  params.lse = view_of<kernels::Compute<T>>(lse, false);
  run_on_threads(params);
}

TensorPair decode(const at::Tensor& query, const at::Tensor& key_cache,
                  const at::Tensor& value_cache, const at::Tensor& lengths, bool causal,
                  at::OptionalIntArrayRef window, const OptionalTensor& bias,
                  const OptionalTensor& hide, const OptionalTensor& beam_index,
                  std::optional<double> scale) {
  const DecodeCall call{query, key_cache, value_cache, lengths, causal, parse_window(window),
                        bias,  hide,      beam_index,  scale};
  check_decode(call);
  const at::Tensor checked = read_lengths("lengths", lengths, key_cache.size(2));
  if (beam_index.has_value()) check_beam_rows(call, checked.const_data_ptr<int64_t>());
  const at::Tensor output = empty_rows(query, value_cache.size(3), false);
  const at::Tensor lse = empty_row_numbers(query);
  with_element_type(query.scalar_type(),
                    [&](auto type) { launch_decode<decltype(type)>(call, checked, output, lse); });
  return {output, lse};
}

kernels::RawView raw_view(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.stride(0), tensor.stride(1),
          tensor.stride(2), tensor.stride(3)};
}

kernels::CacheAppendParams append_params(const at::Tensor& source, const at::Tensor& cache,
                                         const at::Tensor& lengths) {
  kernels::CacheAppendParams params;
  params.source = raw_view(source);
  params.cache = raw_view(cache);
  params.lengths = lengths.const_data_ptr<int64_t>();
  params.heads = source.size(1);
  params.rows = source.size(2);
  params.width = source.size(3);
  params.element_size = source.element_size();
  return params;
}

void cache_append(const at::Tensor& key_cache, const at::Tensor& value_cache, const at::Tensor& key,
                  const at::Tensor& value, const at::Tensor& lengths,
                  std::optional<c10::SymInt> max_length) {
  check_cache_append({key_cache, value_cache, key, value, lengths, max_length});
  const int64_t room = key_cache.size(2) - key.size(2);
  TORCH_CHECK_VALUE(room >= 0, "cache_append: ", key.size(2), " tokens came; the capacity is ",
                    key_cache.size(2));
  const at::Tensor checked = read_lengths("lengths (before appending)", lengths, room);
  const auto keys = append_params(key, key_cache, checked);
  const auto values = append_params(value, value_cache, checked);
  constexpr int64_t kSequencesPerThread = 64;
  at::parallel_for(0, key.size(0), kSequencesPerThread, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      kernels::append_rows(keys, b);
      kernels::append_rows(values, b);
    }
  });
}

}  // namespace

TORCH_LIBRARY_IMPL(headwise, CPU, m) {
  m.impl("attention_decode", TORCH_FN(decode));
  m.impl("cache_append", TORCH_FN(cache_append));
}

}  // namespace headwise::ops
