#include "csrc/ops/checks.h"

#include <c10/util/Exception.h>

#include <cmath>
#include <vector>

#include "csrc/ops/dropout.h"

namespace headwise::ops {

namespace {

constexpr int64_t kMaxWidth = 256;

void check_same_size(const char* name, const at::Tensor& tensor, int64_t dim, const char* what,
                     const char* other_name, const c10::SymInt& size) {
  TORCH_CHECK_VALUE(tensor.sym_size(dim) == size, "attention: ", name, " has ",
                    tensor.sym_size(dim), " ", what, " (shape ", tensor.sym_sizes(),
                    "); it must have as many as ", other_name, ", ", size);
}

void check_inputs(const Call& call) {
  const int64_t dim = call.packed() ? 3 : 4;
  const int64_t head_dim = 1, width_dim = dim - 1, row_dim = call.packed() ? 0 : 2;
  const at::Tensor &query = call.query, &key = call.key, &value = call.value;
  check_dtype(query);
  check_kind("query", query, dim, query);
  check_kind("key", key, dim, query);
  check_heads(query.sym_size(head_dim), key.sym_size(head_dim), "key");
  check_width("query", query.sym_size(width_dim));
  check_same_size("key", key, width_dim, "numbers a head", "query", query.sym_size(width_dim));
  if (!call.packed()) check_same_size("key", key, 0, "sequences", "query", query.sym_size(0));
  if (!value.defined()) return;
  check_kind("value", value, dim, query);
  check_width("value", value.sym_size(width_dim));
  check_same_size("value", value, head_dim, "heads", "key", key.sym_size(head_dim));
  check_same_size("value", value, row_dim, "rows", "key", key.sym_size(row_dim));
  if (!call.packed()) check_same_size("value", value, 0, "sequences", "query", query.sym_size(0));
}

void check_positions(const Call& call) {
  const AttentionOptions& o = call.options;
  if (call.packed()) {
    const Packing& packing = *call.packing;
    TORCH_CHECK_VALUE(packing.query_starts.dim() == 1 && packing.query_starts.sym_size(0) >= 1,
                      "attention: query_starts has shape ", packing.query_starts.sym_sizes(),
                      "; it must be (B + 1)");
    const c10::SymInt size = packing.query_starts.sym_size(0);
    check_int_vector("query_starts", packing.query_starts, size, call.query);
    check_int_vector("key_starts", packing.key_starts, size, call.query);
    return;
  }
  const c10::SymInt batch = call.query.sym_size(0);
  if (o.query_lengths) check_int_vector("query_lengths", *o.query_lengths, batch, call.query);
  if (o.key_lengths) check_int_vector("key_lengths", *o.key_lengths, batch, call.query);
  const bool by_position = o.causal || o.window.has_value();
  TORCH_CHECK_VALUE(
      !by_position || o.align == Align::kStart ||
          o.query_lengths.has_value() == o.key_lengths.has_value(),
      "attention: only ", o.query_lengths.has_value() ? "query_lengths" : "key_lengths",
      " came with causal or window and align=\"end\", which lines up the ends of queries and keys; "
      "give both lengths or neither, or align=\"start\"");
}

void check_masks(const Call& call) {
  const AttentionOptions& o = call.options;
  TORCH_CHECK_VALUE(!(o.hide.has_value() && o.keep.has_value()),
                    "attention: hide and keep both came; they are opposites, give one");
  std::vector<c10::SymInt> sizes;
  if (call.packed()) {
    sizes = {call.packing->query_starts.sym_size(0) - 1, call.query.sym_size(1), -1, -1};
  } else {
    sizes = {call.query.sym_size(0), call.query.sym_size(1), call.query.sym_size(2),
             call.key.sym_size(2)};
  }
  if (call.mask().has_value()) {
    const char* name = o.hide.has_value() ? "hide" : "keep";
    check_mask_dtype(name, *call.mask());
    check_element_tensor(name, *call.mask(), sizes, call.query);
  }
  if (o.bias.has_value()) {
    check_bias_dtype(*o.bias, call.query);
    check_element_tensor("bias", *o.bias, sizes, call.query);
  }
}

void check_is(const char* name, const at::Tensor& tensor, at::ScalarType dtype,
              c10::SymIntArrayRef sizes, const at::Tensor& query) {
  TORCH_CHECK_VALUE(tensor.scalar_type() == dtype && tensor.device() == query.device() &&
                        tensor.sym_sizes() == sizes,
                    "attention: ", name, " is ", tensor.scalar_type(), " of shape ",
                    tensor.sym_sizes(), " on ", tensor.device(), "; it must be ", dtype,
                    " of shape ", sizes, " on ", query.device());
}

}  // namespace

at::ScalarType sum_dtype(const at::Tensor& query) {
  return query.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

void check_dtype(const at::Tensor& query) {
  const at::ScalarType dtype = query.scalar_type();
  TORCH_CHECK_VALUE(
      dtype == at::kFloat || dtype == at::kDouble || dtype == at::kBFloat16 || dtype == at::kHalf,
      "attention: query is ", dtype, "; it must be float32, bfloat16, float16 or float64");
}

void check_kind(const char* name, const at::Tensor& tensor, int64_t dim, const at::Tensor& query) {
  TORCH_CHECK_VALUE(tensor.scalar_type() == query.scalar_type(), "attention: ", name, " is ",
                    tensor.scalar_type(), " and query is ", query.scalar_type(),
                    "; query, key and value must have one dtype");
  TORCH_CHECK_VALUE(tensor.device() == query.device(), "attention: ", name, " is on ",
                    tensor.device(), " and query on ", query.device(),
                    "; all tensors must be on one device");
  TORCH_CHECK_VALUE(tensor.dim() == dim, "attention: ", name, " has shape ", tensor.sym_sizes(),
                    "; it must have ", dim, " dimensions, ",
                    dim == 4 ? "(batch, heads, rows, width)" : "(rows, heads, width)");
}

void check_heads(const c10::SymInt& heads, const c10::SymInt& kv_heads, const char* key_name) {
  const bool divides = kv_heads == 0 ? heads == 0 : heads % kv_heads == 0;
  TORCH_CHECK_VALUE(divides, "attention: query has ", heads, " heads and ", key_name, " ", kv_heads,
                    "; the heads of query must be a multiple of those of ", key_name);
}

void check_width(const char* name, const c10::SymInt& width) {
  TORCH_CHECK_VALUE(width >= 1 && width <= kMaxWidth, "attention: ", name, " has heads of width ",
                    width, "; the width must be 1 to ", kMaxWidth);
}

void check_int_vector(const char* name, const at::Tensor& tensor, const c10::SymInt& size,
                      const at::Tensor& query) {
  const bool integer = tensor.scalar_type() == at::kInt || tensor.scalar_type() == at::kLong;
  TORCH_CHECK_VALUE(integer && tensor.dim() == 1 && tensor.sym_size(0) == size, "attention: ", name,
                    " is ", tensor.scalar_type(), " of shape ", tensor.sym_sizes(),
                    "; it must be int32 or int64 of shape [", size, "]");
  TORCH_CHECK_VALUE(tensor.device() == query.device(), "attention: ", name, " is on ",
                    tensor.device(), " and query on ", query.device(),
                    "; all tensors must be on one device");
}

void check_element_tensor(const char* name, const at::Tensor& tensor, c10::SymIntArrayRef sizes,
                          const at::Tensor& query) {
  TORCH_CHECK_VALUE(tensor.device() == query.device(), "attention: ", name, " is on ",
                    tensor.device(), " and query on ", query.device(),
                    "; all tensors must be on one device");
  const int64_t dim = tensor.dim();
  bool fits = dim == 2 || dim == 4;
  for (int64_t d = 0; fits && d < dim; ++d) {
    const c10::SymInt& size = sizes[4 - dim + d];
    fits = size < 0 || tensor.sym_size(d) == 1 || tensor.sym_size(d) == size;
  }
  TORCH_CHECK_VALUE(fits, "attention: ", name, " has shape ", tensor.sym_sizes(),
                    "; it must be (T_q, T_k) or have 4 dimensions that are 1 or those of "
                    "(B, H, T_q, T_k) = ",
                    sizes, sizes[2] < 0 ? " (-1: the longest sequence)" : "");
}

void check_mask_dtype(const char* name, const at::Tensor& mask) {
  TORCH_CHECK_VALUE(mask.scalar_type() == at::kBool, "attention: ", name, " is ",
                    mask.scalar_type(),
                    "; it must be bool (an additive mask is the argument bias)");
}

void check_bias_dtype(const at::Tensor& bias, const at::Tensor& query) {
  TORCH_CHECK_VALUE(bias.scalar_type() == query.scalar_type() || bias.scalar_type() == at::kFloat,
                    "attention: bias is ", bias.scalar_type(),
                    "; it must be float32 or query's dtype, ", query.scalar_type(),
                    " (a boolean mask is the argument hide or keep)");
}

void check_window(const std::optional<std::array<int64_t, 2>>& window) {
  if (!window.has_value()) return;
  const auto [left, right] = *window;
  TORCH_CHECK_VALUE(left >= -1 && right >= -1, "attention: window is (", left, ", ", right,
                    "); both must be at least 0, or -1 for unbounded");
}

void check_scale(const std::optional<double>& scale) {
  TORCH_CHECK_VALUE(!scale.has_value() || std::isfinite(*scale), "attention: scale is ",
                    scale.value_or(0.0), "; it must be finite");
}

void check_call(const Call& call) {
  check_inputs(call);
  check_positions(call);
  check_masks(call);
  check_window(call.options.window);
  check_scale(call.options.scale);
  check_dropout("attention", call.dropout(), call.query);
}

void check_lse(const Call& call, const at::Tensor& lse) {
  check_is("lse", lse, sum_dtype(call.query), call.query.sym_sizes().slice(0, call.query.dim() - 1),
           call.query);
}

void check_statistics(const Call& call, const at::Tensor& value, const at::Tensor& lse) {
  const int64_t dim = call.query.dim(), row_dim = call.packed() ? 0 : 2;
  const at::Tensor& key = call.key;
  check_kind("value", value, dim, call.query);
  check_width("value", value.sym_size(dim - 1));
  check_same_size("value", value, row_dim, "rows", "key", key.sym_size(row_dim));
  if (!call.packed()) check_same_size("value", value, 0, "sequences", "query", key.sym_size(0));
  TORCH_CHECK_VALUE(
      value.sym_size(1) == key.sym_size(1) || value.sym_size(1) == call.query.sym_size(1),
      "attention_statistics: value has ", value.sym_size(1), " heads (shape ", value.sym_sizes(),
      "); it must have as many as key, ", key.sym_size(1), ", or as query, ",
      call.query.sym_size(1));
  check_lse(call, lse);
}

void check_backward(const Call& call, const Saved& saved) {
  std::vector<c10::SymInt> sizes = call.query.sym_sizes().vec();
  sizes.back() = call.value.sym_sizes().back();
  const at::ScalarType dtype = call.query.scalar_type();
  check_is("output_gradient", saved.output_gradient, dtype, sizes, call.query);
  check_is("output", saved.output, dtype, sizes, call.query);
  check_lse(call, saved.lse);
  sizes.pop_back();
  if (!saved.lse_gradient.has_value()) return;
  check_is("lse_gradient", *saved.lse_gradient, sum_dtype(call.query), sizes, call.query);
}

}  // namespace headwise::ops
