#include "csrc/ops/activation_dropout.h"

#include <ATen/core/enum_tag.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <string>
#include <tuple>

#include "csrc/kernels/activation_dropout/params.h"
#include "csrc/ops/dropout.h"
#include "csrc/ops/find_op.h"
#include "csrc/ops/launch.h"
#include "csrc/ops/refuse_gradient.h"
#include "csrc/ops/rows.h"

namespace headwise {
namespace ops {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using kernels::RowActivation;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using TensorPair = std::tuple<at::Tensor, at::Tensor>;

constexpr char kName[] = "activation_dropout";

RowActivation parse_activation(std::string_view word) {
  TORCH_CHECK_VALUE(word == "relu" || word == "none", kName, ": activation is \"", word,
                    "\"; \"relu\" or \"none\" is needed");
  return word == "relu" ? RowActivation::kRelu : RowActivation::kNone;
}

void check(const at::Tensor& x, const OptionalTensor& bias, const DropoutOptions& dropout) {
  TORCH_CHECK_VALUE(x.dim() == 2 && x.sym_size(1) > 0, kName,
                    ": x (N, F) is needed, F at least 1; it has sizes ", x.sym_sizes());
  check_row_type(kName, "x", x, "x", x);
  if (bias.has_value()) {
    TORCH_CHECK_VALUE(bias->dim() == 1 && bias->sym_size(0) == x.sym_size(1), kName,
                      ": bias has sizes ", bias->sym_sizes(),
                      "; (F) is needed with F = ", x.sym_size(1));
    check_row_type(kName, "bias", *bias, "x", x);
  }
  check_dropout(kName, dropout, x);
}

template <typename C>
at::Tensor forward_of(const at::Tensor& given, const OptionalTensor& given_bias,
                      RowActivation activation, const DropoutOptions& dropout) {
  using Params = kernels::ActivationDropoutParams<C>;
  const at::Tensor x = prepared_rows(given, row_sum_type(given), Params::kWidthMultiple);
  const at::Tensor y = room_like(x);
  at::Tensor bias;
  Params params;
  params.rows = x.size(0);
  params.width = given.size(1);
  params.stride = x.size(1);
  params.activation = activation;
  params.x = x.const_data_ptr<C>();
  if (given_bias.has_value()) {
    bias = prepared_rows(*given_bias, row_sum_type(given), Params::kWidthMultiple);
    params.bias = bias.const_data_ptr<C>();
  }
  params.dropout = dropout_numbers(dropout);
  params.y = y.mutable_data_ptr<C>();
  run_on_threads(params);
  return returned_rows(y, given);
}

at::Tensor forward_cpu(const at::Tensor& x, const OptionalTensor& bias, std::string_view activation,
                       double dropout, const OptionalTensor& seed, c10::SymInt offset) {
  const DropoutOptions options{dropout, seed, std::move(offset)};
  check(x, bias, options);
  const RowActivation function = parse_activation(activation);
  return row_sum_type(x) == at::kDouble ? forward_of<double>(x, bias, function, options)
                                        : forward_of<float>(x, bias, function, options);
}

at::Tensor forward_meta(const at::Tensor& x, const OptionalTensor& bias,
                        std::string_view activation, double dropout, const OptionalTensor& seed,
                        c10::SymInt offset) {
  check(x, bias, {dropout, seed, std::move(offset)});
  parse_activation(activation);
  return at::empty_symint(x.sym_sizes(), x.options());
}

template <typename C>
TensorPair backward_of(const at::Tensor& given, const OptionalTensor& given_y,
                       RowActivation activation, bool bias_gradient,
                       const DropoutOptions& dropout) {
  using Params = kernels::ActivationDropoutGradientParams<C>;
  const auto prepare = [&](const at::Tensor& t) {
    return prepared_rows(t, row_sum_type(given), Params::kWidthMultiple);
  };
  const at::Tensor y_gradient = prepare(given);
  const at::Tensor x_gradient = room_like(y_gradient);
  const at::Tensor sums = at::empty({bias_gradient ? given.size(1) : 0}, y_gradient.options());
  at::Tensor y;
  Params params;
  params.rows = y_gradient.size(0);
  params.width = given.size(1);
  params.stride = y_gradient.size(1);
  params.activation = activation;
  if (activation == RowActivation::kRelu) {
    y = prepare(*given_y);
    params.y = y.const_data_ptr<C>();
  }
  params.y_gradient = y_gradient.const_data_ptr<C>();
  params.dropout = dropout_numbers(dropout);
  params.x_gradient = x_gradient.mutable_data_ptr<C>();
  if (bias_gradient) params.bias_gradient = sums.mutable_data_ptr<C>();
  run_on_threads(params);
  return {returned_rows(x_gradient, given), sums.to(given.scalar_type())};
}

/// y is needed for "relu" alone. Gradients of x, and of the bias where it is asked for, else (0).
TensorPair backward_cpu(const at::Tensor& y_gradient, const OptionalTensor& y,
                        std::string_view activation, bool bias_gradient, double dropout,
                        const OptionalTensor& seed, c10::SymInt offset) {
  const DropoutOptions options{dropout, seed, std::move(offset)};
  check(y_gradient, std::nullopt, options);
  const RowActivation function = parse_activation(activation);
  TORCH_CHECK_VALUE(function == RowActivation::kNone || y.has_value(),
                    "activation_dropout_backward: activation is \"relu\" and no y came");
  TORCH_CHECK_VALUE(!y.has_value() || y->sizes() == y_gradient.sizes(),
                    "activation_dropout_backward: y and y_gradient have sizes ", y->sizes(),
                    " and ", y_gradient.sizes(), "; they need the same");
  return row_sum_type(y_gradient) == at::kDouble
             ? backward_of<double>(y_gradient, y, function, bias_gradient, options)
             : backward_of<float>(y_gradient, y, function, bias_gradient, options);
}

TensorPair backward_meta(const at::Tensor& y_gradient, const OptionalTensor& /*y*/,
                         std::string_view /*activation*/, bool bias_gradient, double /*dropout*/,
                         const OptionalTensor& /*seed*/, c10::SymInt /*offset*/) {
  return {at::empty_symint(y_gradient.sym_sizes(), y_gradient.options()),
          at::empty_symint({bias_gradient ? y_gradient.sym_size(1) : c10::SymInt(0)},
                           y_gradient.options())};
}

using ForwardSignature = at::Tensor(const at::Tensor&, const OptionalTensor&, std::string_view,
                                    double, const OptionalTensor&, c10::SymInt);
using BackwardSignature = TensorPair(const at::Tensor&, const OptionalTensor&, std::string_view,
                                     bool, double, const OptionalTensor&, c10::SymInt);

const auto& forward_op() {
  static const auto op = find_op<ForwardSignature>("headwise::activation_dropout_forward");
  return op;
}
const auto& backward_op() {
  static const auto op = find_op<BackwardSignature>("headwise::activation_dropout_backward");
  return op;
}

struct ActivationDropout : torch::autograd::Function<ActivationDropout> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const OptionalTensor& bias,
                            const std::string& activation, const DropoutOptions& dropout) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    at::Tensor y =
        forward_op().call(x, bias, activation, dropout.probability, dropout.seed, dropout.offset);
    const bool needs_y = parse_activation(activation) == RowActivation::kRelu;
    ctx->save_for_backward({needs_y ? y : at::Tensor(), dropout.seed.value_or(at::Tensor())});
    ctx->saved_data["activation"] = activation;
    ctx->saved_data["dropout"] = dropout.probability;
    ctx->saved_data["offset"] = dropout.offset;
    if (bias.has_value()) ctx->saved_data["bias"] = bias->scalar_type();
    return y;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    auto& data = ctx->saved_data;
    const bool has_bias = data.find("bias") != data.end();
    const auto optional = [](const at::Tensor& t) {
      return t.defined() ? OptionalTensor(t) : std::nullopt;
    };
    auto [x, bias] = backward_op().call(
        gradients[0], optional(saved[0]), data["activation"].toStringRef(), has_bias,
        data["dropout"].toDouble(), optional(saved[1]), data["offset"].toSymInt());
    return {x, has_bias ? bias.to(data["bias"].toScalarType()) : at::Tensor(), at::Tensor(),
            at::Tensor()};
  }
};

at::Tensor forward_autograd(const at::Tensor& x, const OptionalTensor& bias,
                            std::string_view activation, double dropout, const OptionalTensor& seed,
                            c10::SymInt offset) {
  return ActivationDropout::apply(x, bias, std::string(activation),
                                  DropoutOptions{dropout, seed, std::move(offset)});
}

TensorPair backward_autograd(const at::Tensor& y_gradient, const OptionalTensor& y,
                             std::string_view activation, bool bias_gradient, double dropout,
                             const OptionalTensor& seed, c10::SymInt offset) {
  TensorPair result;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    result = backward_op().call(y_gradient, y, activation, bias_gradient, dropout, seed,
                                std::move(offset));
  }
  refuse_gradient({std::get<0>(result), std::get<1>(result)},
                  "activation_dropout: double backward is not supported, and a gradient was "
                  "differentiated again",
                  y_gradient, y.value_or(at::Tensor()));
  return result;
}

/// The public op.
at::Tensor activated(const at::Tensor& x, const OptionalTensor& bias, std::string_view activation,
                     double probability, const OptionalTensor& seed, c10::SymInt offset) {
  const DropoutOptions dropout = with_seed({probability, seed, std::move(offset)}, x);
  return forward_op().call(x, bias, activation, dropout.probability, dropout.seed, dropout.offset);
}

const char* const kArguments =
    "(Tensor x, Tensor? bias=None, *, str activation=\"relu\", float dropout=0.0, Tensor? "
    "seed=None, SymInt offset=0) -> Tensor";

}  // namespace

TORCH_LIBRARY_FRAGMENT(headwise, m) {
  const auto define = [&](const std::string& schema) {
    m.def(schema.c_str(), {at::Tag::pt2_compliant_tag});
  };
  define(std::string("activation_dropout") + kArguments);
  define(std::string("activation_dropout_forward") + kArguments);
  define(
      "activation_dropout_backward(Tensor y_gradient, Tensor? y, *, str activation=\"relu\", bool "
      "bias_gradient=False, float dropout=0.0, Tensor? seed=None, SymInt offset=0) -> (Tensor, "
      "Tensor)");
}

TORCH_LIBRARY_IMPL(headwise, CompositeImplicitAutograd, m) {
  m.impl("activation_dropout", TORCH_FN(activated));
}
TORCH_LIBRARY_IMPL(headwise, CPU, m) {
  m.impl("activation_dropout_forward", TORCH_FN(forward_cpu));
  m.impl("activation_dropout_backward", TORCH_FN(backward_cpu));
}
TORCH_LIBRARY_IMPL(headwise, Meta, m) {
  m.impl("activation_dropout_forward", TORCH_FN(forward_meta));
  m.impl("activation_dropout_backward", TORCH_FN(backward_meta));
}
TORCH_LIBRARY_IMPL(headwise, Autograd, m) {
  m.impl("activation_dropout_forward", TORCH_FN(forward_autograd));
  m.impl("activation_dropout_backward", TORCH_FN(backward_autograd));
}

}  // namespace ops

at::Tensor activation_dropout(const at::Tensor& x, const std::optional<at::Tensor>& bias,
                              std::string_view activation, const DropoutOptions& dropout) {
  return ops::activated(x, bias, activation, dropout.probability, dropout.seed, dropout.offset);
}

}  // namespace headwise
