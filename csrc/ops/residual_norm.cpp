#include "csrc/ops/residual_norm.h"

#include <ATen/core/enum_tag.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>

#include "csrc/kernels/residual_norm/params.h"
#include "csrc/ops/dropout.h"
#include "csrc/ops/find_op.h"
#include "csrc/ops/launch.h"
#include "csrc/ops/refuse_gradient.h"
#include "csrc/ops/rows.h"

namespace headwise {
namespace ops {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr char kName[] = "residual_norm";

using TensorPair = std::tuple<at::Tensor, at::Tensor>;
/// sum, normed, and of each row the mean and 1 / sqrt(variance + epsilon).
using NormResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
/// Of x, branch, weight and bias; that of branch is (0) where it is that of x.
using NormGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

struct NormCall {
  at::Tensor x, branch, weight, bias;
  double epsilon;
  DropoutOptions dropout;
};

void check(const NormCall& call) {
  const auto& [x, branch, weight, bias, epsilon, dropout] = call;
  TORCH_CHECK_VALUE(x.dim() == 2 && x.sym_size(1) > 0 && branch.sym_sizes() == x.sym_sizes(), kName,
                    ": x and branch (N, E) are needed, E at least 1; they have sizes ",
                    x.sym_sizes(), " and ", branch.sym_sizes());
  for (const auto& [name, tensor] : {std::pair{"weight", &weight}, std::pair{"bias", &bias}}) {
    TORCH_CHECK_VALUE(tensor->dim() == 1 && tensor->sym_size(0) == x.sym_size(1), kName, ": ", name,
                      " has sizes ", tensor->sym_sizes(),
                      "; (E) is needed with E = ", x.sym_size(1));
    check_row_type(kName, name, *tensor, "x", x);
  }
  check_row_type(kName, "x", x, "x", x);
  TORCH_CHECK_TYPE(branch.scalar_type() == x.scalar_type(), kName, ": branch is ",
                   branch.scalar_type(), " and x ", x.scalar_type(), "; they need the same type");
  TORCH_CHECK_VALUE(epsilon >= 0, kName, ": epsilon is ", epsilon, "; at least 0 is needed");
  check_dropout(kName, dropout, x);
}

template <typename C>
NormResult forward_of(const NormCall& call) {
  using Params = kernels::ResidualNormParams<C>;
  const at::ScalarType type = row_sum_type(call.x);
  const auto prepare = [&](const at::Tensor& t) {
    return prepared_rows(t, type, Params::kWidthMultiple);
  };
  const at::Tensor x = prepare(call.x), branch = prepare(call.branch);
  const at::Tensor weight = prepare(call.weight), bias = prepare(call.bias);
  const at::Tensor sum = room_like(x), normed = room_like(x);
  const at::Tensor mean = at::empty({x.size(0)}, x.options());
  const at::Tensor inverse = at::empty({x.size(0)}, x.options());
  Params params;
  params.rows = x.size(0);
  params.width = call.x.size(1);
  params.stride = x.size(1);
  params.x = x.const_data_ptr<C>();
  params.branch = branch.const_data_ptr<C>();
  params.weight = weight.const_data_ptr<C>();
  params.bias = bias.const_data_ptr<C>();
  params.epsilon = call.epsilon;
  params.dropout = dropout_numbers(call.dropout);
  params.sum = sum.mutable_data_ptr<C>();
  params.normed = normed.mutable_data_ptr<C>();
  params.mean = mean.mutable_data_ptr<C>();
  params.inverse = inverse.mutable_data_ptr<C>();
  run_on_threads(params);
  return {returned_rows(sum, call.x), returned_rows(normed, call.x), mean, inverse};
}

NormResult forward_cpu(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                       const at::Tensor& bias, double epsilon, double dropout,
                       const OptionalTensor& seed, c10::SymInt offset) {
  const NormCall call{x, branch, weight, bias, epsilon, {dropout, seed, std::move(offset)}};
  check(call);
  return row_sum_type(x) == at::kDouble ? forward_of<double>(call) : forward_of<float>(call);
}

NormResult forward_meta(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                        const at::Tensor& bias, double epsilon, double dropout,
                        const OptionalTensor& seed, c10::SymInt offset) {
  check({x, branch, weight, bias, epsilon, {dropout, seed, std::move(offset)}});
  const auto rows = [&] { return at::empty_symint(x.sym_sizes(), x.options()); };
  const auto numbers = [&] {
    return at::empty_symint({x.sym_size(0)}, x.options().dtype(row_sum_type(x)));
  };
  return {rows(), rows(), numbers(), numbers()};
}

template <typename C>
NormGradients backward_of(const OptionalTensor& sum_gradient, const at::Tensor& normed_gradient,
                          const NormResult& saved, const at::Tensor& weight,
                          const DropoutOptions& dropout) {
  using Params = kernels::ResidualNormGradientParams<C>;
  const at::Tensor& given = std::get<0>(saved);
  const at::ScalarType type = row_sum_type(given);
  const auto prepare = [&](const at::Tensor& t) {
    return prepared_rows(t, type, Params::kWidthMultiple);
  };
  const at::Tensor sum = prepare(given), normed = prepare(normed_gradient);
  const at::Tensor factors = prepare(weight);
  const at::Tensor mean = std::get<2>(saved), inverse = std::get<3>(saved);
  const at::Tensor x_gradient = room_like(sum);
  const at::Tensor weight_gradient = at::empty({given.size(1)}, sum.options());
  const at::Tensor bias_gradient = at::empty({given.size(1)}, sum.options());
  at::Tensor passed, branch_gradient;
  Params params;
  params.rows = sum.size(0);
  params.width = given.size(1);
  params.stride = sum.size(1);
  params.sum = sum.const_data_ptr<C>();
  params.mean = mean.const_data_ptr<C>();
  params.inverse = inverse.const_data_ptr<C>();
  params.weight = factors.const_data_ptr<C>();
  params.normed_gradient = normed.const_data_ptr<C>();
  if (sum_gradient.has_value()) {
    passed = prepare(*sum_gradient);
    params.sum_gradient = passed.const_data_ptr<C>();
  }
  params.dropout = dropout_numbers(dropout);
  params.x_gradient = x_gradient.mutable_data_ptr<C>();
  if (dropout.drops()) {
    branch_gradient = room_like(sum);
    params.branch_gradient = branch_gradient.mutable_data_ptr<C>();
  }
  params.weight_gradient = weight_gradient.mutable_data_ptr<C>();
  params.bias_gradient = bias_gradient.mutable_data_ptr<C>();
  run_on_threads(params);
  return {returned_rows(x_gradient, given),
          dropout.drops() ? returned_rows(branch_gradient, given) : at::empty({0}, given.options()),
          weight_gradient.to(weight.scalar_type()), bias_gradient.to(weight.scalar_type())};
}

NormGradients backward_cpu(const OptionalTensor& sum_gradient, const at::Tensor& normed_gradient,
                           const at::Tensor& sum, const at::Tensor& mean, const at::Tensor& inverse,
                           const at::Tensor& weight, double dropout, const OptionalTensor& seed,
                           c10::SymInt offset) {
  const DropoutOptions options{dropout, seed, std::move(offset)};
  check_dropout(kName, options, sum);
  const auto needs = [&](const char* name, const at::Tensor& tensor, at::IntArrayRef sizes) {
    TORCH_CHECK_VALUE(tensor.sizes() == sizes, "residual_norm_backward: ", name, " has sizes ",
                      tensor.sizes(), "; ", sizes, " are needed");
  };
  TORCH_CHECK_VALUE(sum.dim() == 2, "residual_norm_backward: sum (N, E) is needed; it has sizes ",
                    sum.sizes());
  if (sum_gradient.has_value()) needs("sum_gradient", *sum_gradient, sum.sizes());
  needs("normed_gradient", normed_gradient, sum.sizes());
  needs("mean", mean, {sum.size(0)});
  needs("inverse", inverse, {sum.size(0)});
  needs("weight", weight, {sum.size(1)});
  const NormResult saved{sum, at::Tensor(), mean, inverse};
  return row_sum_type(sum) == at::kDouble
             ? backward_of<double>(sum_gradient, normed_gradient, saved, weight, options)
             : backward_of<float>(sum_gradient, normed_gradient, saved, weight, options);
}

NormGradients backward_meta(const OptionalTensor& /*sum_gradient*/,
                            const at::Tensor& /*normed_gradient*/, const at::Tensor& sum,
                            const at::Tensor& /*mean*/, const at::Tensor& /*inverse*/,
                            const at::Tensor& weight, double dropout,
                            const OptionalTensor& /*seed*/, c10::SymInt /*offset*/) {
  const auto rows = [&] { return at::empty_symint(sum.sym_sizes(), sum.options()); };
  const auto columns = [&] { return at::empty_symint(weight.sym_sizes(), weight.options()); };
  return {rows(), dropout > 0 ? rows() : at::empty({0}, sum.options()), columns(), columns()};
}

using ForwardSignature = NormResult(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                    const at::Tensor&, double, double, const OptionalTensor&,
                                    c10::SymInt);
using BackwardSignature = NormGradients(const OptionalTensor&, const at::Tensor&, const at::Tensor&,
                                        const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                        double, const OptionalTensor&, c10::SymInt);

const auto& forward_op() {
  static const auto op = find_op<ForwardSignature>("headwise::residual_norm_forward");
  return op;
}
const auto& backward_op() {
  static const auto op = find_op<BackwardSignature>("headwise::residual_norm_backward");
  return op;
}

struct ResidualNorm : torch::autograd::Function<ResidualNorm> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& branch,
                               const at::Tensor& weight, const at::Tensor& bias, double epsilon,
                               const DropoutOptions& dropout) {
    ctx->set_materialize_grads(false);
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [sum, normed, mean, inverse] = forward_op().call(
        x, branch, weight, bias, epsilon, dropout.probability, dropout.seed, dropout.offset);
    ctx->save_for_backward({sum, mean, inverse, weight, dropout.seed.value_or(at::Tensor())});
    ctx->saved_data["dropout"] = dropout.probability;
    ctx->saved_data["offset"] = dropout.offset;
    ctx->mark_non_differentiable({mean, inverse});
    return {sum, normed, mean, inverse};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const auto optional = [](const at::Tensor& t) {
      return t.defined() ? OptionalTensor(t) : std::nullopt;
    };
    const at::Tensor normed =
        gradients[1].defined() ? gradients[1] : at::zeros_like(saved[0]);  // only the sum was used
    const double dropout = ctx->saved_data["dropout"].toDouble();
    auto [x, branch, weight, bias] =
        backward_op().call(optional(gradients[0]), normed, saved[0], saved[1], saved[2], saved[3],
                           dropout, optional(saved[4]), ctx->saved_data["offset"].toSymInt());
    return {x, dropout > 0 ? branch : x, weight, bias, at::Tensor(), at::Tensor()};
  }
};

NormResult forward_autograd(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                            const at::Tensor& bias, double epsilon, double dropout,
                            const OptionalTensor& seed, c10::SymInt offset) {
  const variable_list result = ResidualNorm::apply(
      x, branch, weight, bias, epsilon, DropoutOptions{dropout, seed, std::move(offset)});
  return {result[0], result[1], result[2], result[3]};
}

NormGradients backward_autograd(const OptionalTensor& sum_gradient,
                                const at::Tensor& normed_gradient, const at::Tensor& sum,
                                const at::Tensor& mean, const at::Tensor& inverse,
                                const at::Tensor& weight, double dropout,
                                const OptionalTensor& seed, c10::SymInt offset) {
  NormGradients result;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    result = backward_op().call(sum_gradient, normed_gradient, sum, mean, inverse, weight, dropout,
                                seed, std::move(offset));
  }
  refuse_gradient(
      {std::get<0>(result), std::get<1>(result), std::get<2>(result), std::get<3>(result)},
      "residual_norm: double backward is not supported, and a gradient was differentiated again",
      sum_gradient.value_or(at::Tensor()), normed_gradient, sum, weight);
  return result;
}

/// The public op.
TensorPair sum_and_normed(const at::Tensor& x, const at::Tensor& branch, const at::Tensor& weight,
                          const at::Tensor& bias, double epsilon, double probability,
                          const OptionalTensor& seed, c10::SymInt offset) {
  const DropoutOptions dropout = with_seed({probability, seed, std::move(offset)}, x);
  auto result = forward_op().call(x, branch, weight, bias, epsilon, dropout.probability,
                                  dropout.seed, dropout.offset);
  return {std::get<0>(result), std::get<1>(result)};
}

const char* const kArguments =
    "(Tensor x, Tensor branch, Tensor weight, Tensor bias, *, float epsilon=1e-05, float "
    "dropout=0.0, Tensor? seed=None, SymInt offset=0) -> (Tensor sum, Tensor normed";

}  // namespace

TORCH_LIBRARY_FRAGMENT(headwise, m) {
  const auto define = [&](const std::string& schema) {
    m.def(schema.c_str(), {at::Tag::pt2_compliant_tag});
  };
  define(std::string("residual_norm") + kArguments + ")");
  define(std::string("residual_norm_forward") + kArguments + ", Tensor mean, Tensor inverse)");
  define(
      "residual_norm_backward(Tensor? sum_gradient, Tensor normed_gradient, Tensor sum, Tensor "
      "mean, Tensor inverse, Tensor weight, *, float dropout=0.0, Tensor? seed=None, SymInt "
      "offset=0) -> (Tensor, Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(headwise, CompositeImplicitAutograd, m) {
  m.impl("residual_norm", TORCH_FN(sum_and_normed));
}
TORCH_LIBRARY_IMPL(headwise, CPU, m) {
  m.impl("residual_norm_forward", TORCH_FN(forward_cpu));
  m.impl("residual_norm_backward", TORCH_FN(backward_cpu));
}
TORCH_LIBRARY_IMPL(headwise, Meta, m) {
  m.impl("residual_norm_forward", TORCH_FN(forward_meta));
  m.impl("residual_norm_backward", TORCH_FN(backward_meta));
}
TORCH_LIBRARY_IMPL(headwise, Autograd, m) {
  m.impl("residual_norm_forward", TORCH_FN(forward_autograd));
  m.impl("residual_norm_backward", TORCH_FN(backward_autograd));
}

}  // namespace ops

ResidualNormResult residual_norm(const at::Tensor& x, const at::Tensor& branch,
                                 const at::Tensor& weight, const at::Tensor& bias, double epsilon,
                                 const DropoutOptions& dropout) {
  auto [sum, normed] = ops::sum_and_normed(x, branch, weight, bias, epsilon, dropout.probability,
                                           dropout.seed, dropout.offset);
  return {sum, normed};
}

}  // namespace headwise
