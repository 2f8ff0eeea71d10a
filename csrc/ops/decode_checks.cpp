#include <c10/util/Exception.h>

#include <vector>

#include "csrc/ops/checks.h"
#include "csrc/ops/decode.h"

namespace headwise::ops {

namespace {

/// Two caches of one layout, and that they suit `like`.
void check_caches(const at::Tensor& key_cache, const at::Tensor& value_cache,
                  const at::Tensor& like) {
  check_kind("key_cache", key_cache, 4, like);
  check_kind("value_cache", value_cache, 4, like);
  const auto key_sizes = key_cache.sym_sizes().slice(0, 3);
  TORCH_CHECK_VALUE(value_cache.sym_sizes().slice(0, 3) == key_sizes, "attention: value_cache has ",
                    "shape ", value_cache.sym_sizes(), " and key_cache ", key_cache.sym_sizes(),
                    "; rows, heads and capacity must be the same");
}

void check_width_is(const char* name, const at::Tensor& tensor, const char* other,
                    const at::Tensor& like) {
  TORCH_CHECK_VALUE(tensor.sym_size(3) == like.sym_size(3), "attention: ", name, " has heads of ",
                    "width ", tensor.sym_size(3), " and ", other, " of width ", like.sym_size(3),
                    "; they must be the same");
}

void check_beam_index(const DecodeCall& call) {
  const at::Tensor& index = *call.beam_index;
  const c10::SymInt batch = call.query.sym_size(0), capacity = call.key_cache.sym_size(2);
  const bool shape = (index.dim() == 1 || (index.dim() == 2 && index.sym_size(1) == capacity)) &&
                     index.sym_size(0) == batch;
  TORCH_CHECK_VALUE(
      index.scalar_type() == at::kInt && shape && index.device() == call.query.device(),
      "attention_decode: beam_index is ", index.scalar_type(), " of shape ", index.sym_sizes(),
      " on ", index.device(), "; it must be int32 of shape [", batch, "] or [", batch, ", ",
      capacity, "] on ", call.query.device());
}

}  // namespace

void check_decode(const DecodeCall& call) {
  const at::Tensor& query = call.query;
  check_dtype(query);
  check_kind("query", query, 4, query);
  check_caches(call.key_cache, call.value_cache, query);
  check_heads(query.sym_size(1), call.key_cache.sym_size(1), "key_cache");
  check_width("query", query.sym_size(3));
  check_width("value_cache", call.value_cache.sym_size(3));
  check_width_is("key_cache", call.key_cache, "query", query);
  const c10::SymInt batch = query.sym_size(0), rows = call.key_cache.sym_size(0);
  check_int_vector("lengths", call.lengths, batch, query);
  TORCH_CHECK_VALUE(call.beam_index.has_value() || rows >= batch,
                    "attention_decode: key_cache has ", rows, " rows and query ", batch,
                    " sequences; without beam_index each sequence needs a row of its own");
  if (call.beam_index.has_value()) check_beam_index(call);
  const std::vector<c10::SymInt> sizes{batch, query.sym_size(1), query.sym_size(2),
                                       call.key_cache.sym_size(2)};
  if (call.hide.has_value()) {
    check_mask_dtype("hide", *call.hide);
    check_element_tensor("hide", *call.hide, sizes, query);
  }
  if (call.bias.has_value()) {
    check_bias_dtype(*call.bias, query);
    check_element_tensor("bias", *call.bias, sizes, query);
  }
  check_window(call.window);
  check_scale(call.scale);
}

void check_cache_append(const AppendCall& call) {
  check_caches(call.key_cache, call.value_cache, call.key_cache);
  check_kind("key", call.key, 4, call.key_cache);
  check_kind("value", call.value, 4, call.key_cache);
  check_width_is("key", call.key, "key_cache", call.key_cache);
  check_width_is("value", call.value, "value_cache", call.value_cache);
  const c10::SymInt batch = call.key.sym_size(0), capacity = call.key_cache.sym_size(2);
  const c10::SymInt tokens = call.key.sym_size(2);
  TORCH_CHECK_VALUE(
      call.value.sym_sizes().slice(0, 3) == call.key.sym_sizes().slice(0, 3) &&
          call.key.sym_size(1) == call.key_cache.sym_size(1) && batch <= call.key_cache.sym_size(0),
      "cache_append: key has shape ", call.key.sym_sizes(), ", value ", call.value.sym_sizes(),
      " and key_cache ", call.key_cache.sym_sizes(), "; key and value must be ",
      "(B, G, T, width) with B at most the rows of the cache and G its heads");
  check_int_vector("lengths", call.lengths, batch, call.key_cache);
  TORCH_CHECK_VALUE(!call.max_length.has_value() ||
                        (*call.max_length >= 0 && *call.max_length + tokens <= capacity),
                    "cache_append: max_length is ", call.max_length.value_or(0), " and ", tokens,
                    " tokens came; together they must be at most the capacity, ", capacity);
}

}  // namespace headwise::ops
