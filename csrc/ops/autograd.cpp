// Gradients: forward and backward are ops of their own, tied together here.
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "csrc/ops/dispatch.h"
#include "csrc/ops/dropout.h"
#include "csrc/ops/transforms.h"

namespace headwise::ops {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// The public op: draws a seed where dropout needs one, so that manual_seed and checkpointing hold.
TensorPair attention(const Call& call) {
  Call seeded = call;
  seeded.options.seed = with_seed(call.dropout(), call.query).seed;
  return ForwardOp::call(seeded);
}

variable_list tensors_of(const Call& call) {
  const auto or_undefined = [](const OptionalTensor& t) { return t.value_or(at::Tensor()); };
  const AttentionOptions& o = call.options;
  variable_list tensors{call.query,
                        call.key,
                        call.value,
                        or_undefined(o.hide),
                        or_undefined(o.keep),
                        or_undefined(o.bias),
                        or_undefined(o.query_lengths),
                        or_undefined(o.key_lengths),
                        or_undefined(o.seed)};
  if (call.packed()) {
    tensors.push_back(call.packing->query_starts);
    tensors.push_back(call.packing->key_starts);
  }
  return tensors;
}

constexpr size_t kPaddedTensors = 9;

void save(AutogradContext* ctx, const Call& call, const TensorPair& result) {
  variable_list saved = tensors_of(call);
  saved.push_back(std::get<0>(result));
  saved.push_back(std::get<1>(result));
  ctx->save_for_backward(std::move(saved));
  const AttentionOptions& o = call.options;
  ctx->saved_data["causal"] = o.causal;
  ctx->saved_data["align_end"] = o.align == Align::kEnd;
  if (o.window.has_value()) {
    ctx->saved_data["window"] = std::vector<int64_t>(o.window->begin(), o.window->end());
  }
  ctx->saved_data["scale"] = o.scale;
  ctx->saved_data["dropout"] = o.dropout;
  ctx->saved_data["offset"] = o.offset;
  if (call.packed()) {
    ctx->saved_data["max_query"] = call.packing->max_query;
    ctx->saved_data["max_key"] = call.packing->max_key;
  }
}

Call restore(AutogradContext* ctx, const variable_list& saved) {
  const auto optional = [&](size_t i) {
    return saved[i].defined() ? OptionalTensor(saved[i]) : std::nullopt;
  };
  auto& data = ctx->saved_data;
  Call call{saved[0], saved[1], saved[2], std::nullopt, {}};
  AttentionOptions& o = call.options;
  o.hide = optional(3);
  o.keep = optional(4);
  o.bias = optional(5);
  o.query_lengths = optional(6);
  o.key_lengths = optional(7);
  o.seed = optional(8);
  o.causal = data["causal"].toBool();
  o.align = data["align_end"].toBool() ? Align::kEnd : Align::kStart;
  if (const auto window = data.find("window"); window != data.end()) {
    o.window = parse_window(window->second.toIntVector());
  }
  o.scale = data["scale"].toOptional<double>();
  o.dropout = data["dropout"].toDouble();
  o.offset = data["offset"].toSymInt();
  if (data.find("max_query") != data.end()) {
    call.packing = Packing{saved[kPaddedTensors], saved[kPaddedTensors + 1],
                           data["max_query"].toSymInt(), data["max_key"].toSymInt()};
  }
  return call;
}

struct Attention : torch::autograd::Function<Attention> {
  // query, key, value and bias are named apart from the call so that autograd sees them.
  static variable_list forward(AutogradContext* ctx, const at::Tensor& /*query*/,
                               const at::Tensor& /*key*/, const at::Tensor& /*value*/,
                               const OptionalTensor& /*bias*/, const Call& call) {
    ctx->set_materialize_grads(false);
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    const TensorPair result = ForwardOp::call(call);
    save(ctx, call, result);
    return {std::get<0>(result), std::get<1>(result)};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const Call call = restore(ctx, saved);
    const at::Tensor &output = saved[saved.size() - 2], &lse = saved.back();
    at::Tensor output_gradient = gradients[0];
    if (!output_gradient.defined()) {  // only the log-sum-exp was used
      std::vector<c10::SymInt> sizes = call.query.sym_sizes().vec();
      sizes.back() = call.value.sym_sizes().back();
      output_gradient = call.query.new_zeros({}).expand_symint(sizes);
    }
    OptionalTensor lse_gradient;
    if (gradients[1].defined()) lse_gradient = gradients[1];
    constexpr size_t kBiasEdge = 3;
    const bool bias_gradient = call.options.bias.has_value() && ctx->needs_input_grad(kBiasEdge);
    auto [query, key, value, bias] =
        BackwardOp::call(call, output_gradient, lse_gradient, output, lse, bias_gradient);
    return {query, key, value, bias_gradient ? bias : at::Tensor(), at::Tensor()};
  }
};

TensorPair forward(const Call& call) {
  refuse_transforms(call);
  const variable_list result =
      Attention::apply(call.query, call.key, call.value, call.options.bias, call);
  return {result[0], result[1]};
}

}  // namespace

TORCH_LIBRARY_IMPL(headwise, CompositeImplicitAutograd, m) {
  m.impl("attention", TORCH_FN(Padded<&attention>::call));
  m.impl("attention_packed", TORCH_FN(Packed<&attention>::call));
}

/// vmap would take `attention` for one op to loop over, and the rules of its randomness would not
/// reach the seed: it is drawn here, under them, and only the op below is looped over.
TORCH_LIBRARY_IMPL(headwise, FuncTorchVmapMode, m) {
  m.impl("attention", TORCH_FN(Padded<&attention>::call));
  m.impl("attention_packed", TORCH_FN(Packed<&attention>::call));
}

TORCH_LIBRARY_IMPL(headwise, Autograd, m) {
  m.impl("attention_forward", TORCH_FN(Padded<&forward>::call));
  m.impl("attention_packed_forward", TORCH_FN(Packed<&forward>::call));
}

}  // namespace headwise::ops
