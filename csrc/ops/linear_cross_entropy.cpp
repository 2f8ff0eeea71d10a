#include "csrc/ops/linear_cross_entropy.h"

#include <ATen/core/enum_tag.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/library.h>

#include <cmath>
#include <numeric>
#include <tuple>

#include "csrc/kernels/cpu/instruction_set.h"
#include "csrc/kernels/linear_cross_entropy/params.h"
#include "csrc/ops/find_op.h"
#include "csrc/ops/launch.h"
#include "csrc/ops/memory.h"
#include "csrc/ops/refuse_gradient.h"
#include "csrc/ops/rows.h"

namespace headwise {
namespace ops {
namespace {

using OptionalTensor = std::optional<at::Tensor>;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr char kName[] = "linear_cross_entropy";

struct LossCall {
  at::Tensor hidden, weight, labels;
  LinearCrossEntropyOptions options;
};

/// loss, nll, and the gradients of hidden, weight and bias of the loss; (0) where not made.
using LossResult = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor, at::Tensor>;
using GradientTriple = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

void check_rows(const char* name, const at::Tensor& tensor, const c10::SymInt& count,
                const char* letter) {
  TORCH_CHECK_VALUE(tensor.dim() == 1 && tensor.sym_size(0) == count,
                    "linear_cross_entropy: ", name, " has sizes ", tensor.sym_sizes(), "; (",
                    letter, ") is needed with ", letter, " = ", count);
}

void check(const LossCall& call) {
  const auto& [hidden, weight, labels, options] = call;
  TORCH_CHECK_VALUE(hidden.dim() == 2 && weight.dim() == 2 &&
                        hidden.sym_size(1) == weight.sym_size(1) && hidden.sym_size(1) > 0 &&
                        weight.sym_size(0) > 0,
                    "linear_cross_entropy: hidden (N, E) and weight (V, E) are needed, E and V at "
                    "least 1; they have sizes ",
                    hidden.sym_sizes(), " and ", weight.sym_sizes());
  check_row_type(kName, "hidden", hidden, "hidden", hidden);
  check_row_type(kName, "weight", weight, "hidden", hidden);
  check_rows("labels", labels, hidden.sym_size(0), "N");
  TORCH_CHECK_TYPE(labels.scalar_type() == at::kLong || labels.scalar_type() == at::kInt,
                   "linear_cross_entropy: labels are ", labels.scalar_type(),
                   "; int64 or int32 is needed");
  if (options.bias.has_value()) {
    check_row_type(kName, "bias", *options.bias, "hidden", hidden);
    check_rows("bias", *options.bias, weight.sym_size(0), "V");
  }
  if (options.row_weight.has_value()) {
    check_row_type(kName, "row_weight", *options.row_weight, "hidden", hidden);
    check_rows("row_weight", *options.row_weight, hidden.sym_size(0), "N");
    TORCH_CHECK_VALUE(
        !options.row_weight->requires_grad(),
        "linear_cross_entropy: row_weight requires a gradient and has none; detach it");
  }
  TORCH_CHECK_VALUE(options.label_smoothing >= 0 && options.label_smoothing <= 1,
                    "linear_cross_entropy: label_smoothing is ", options.label_smoothing,
                    "; a number from 0 to 1 is needed");
  TORCH_CHECK_VALUE(options.consistency >= 0 && std::isfinite(options.consistency),
                    "linear_cross_entropy: consistency is ", options.consistency,
                    "; a finite number of at least 0 is needed");
  TORCH_CHECK_VALUE(
      options.consistency == 0 || hidden.sym_size(0) % 2 == 0,
      "linear_cross_entropy: consistency compares rows 2n and 2n + 1, and hidden has ",
      hidden.sym_size(0), " rows; an even number is needed");
  TORCH_CHECK_TYPE(!options.bfloat16_products || hidden.scalar_type() != at::kDouble,
                   "linear_cross_entropy: bfloat16_products and hidden is ", hidden.scalar_type(),
                   "; float32, bfloat16 or float16 is needed");
}

/// Labels as the kernel wants them: -1 leaves a row out.
at::Tensor read_labels(const LossCall& call) {
  at::Tensor labels = call.labels.to(at::kLong, /*non_blocking=*/false, /*copy=*/true).contiguous();
  auto* const label = labels.mutable_data_ptr<int64_t>();
  const int64_t classes = call.weight.size(0);
  for (int64_t n = 0; n < labels.size(0); ++n) {
    if (label[n] == call.options.ignore_index) {
      label[n] = -1;
      continue;
    }
    TORCH_CHECK_INDEX(label[n] >= 0 && label[n] < classes,
                      "linear_cross_entropy: the label of row ", n, " is ", label[n], "; 0 to ",
                      classes - 1, " are classes and ", call.options.ignore_index,
                      " (ignore_index) leaves a row out");
  }
  return labels;
}

at::Tensor nothing(const at::Tensor& like) { return at::empty({0}, like.options()); }

template <typename C>
LossResult forward_of(const LossCall& call, bool differentiate) {
  constexpr at::ScalarType kType = std::is_same_v<C, double> ? at::kDouble : at::kFloat;
  using Params = kernels::LinearCrossEntropyParams<C>;
  const auto& options = call.options;
  const int64_t multiple =
      options.bfloat16_products ? Params::kPairWidthMultiple : Params::kWidthMultiple;
  const at::Tensor labels = read_labels(call);
  const at::Tensor hidden = prepared_rows(call.hidden, kType, multiple);
  const at::Tensor weight = prepared_rows(call.weight, kType, multiple);
  const at::Tensor losses = empty_kept({2, hidden.size(0)}, {hidden.size(0), 1}, at::kDouble);
  at::Tensor bias, row_weight;
  Params params;
  params.bfloat16 = options.bfloat16_products;
  params.instruction = params.bfloat16 && kernels::cpu::multiplies_pairs();
  params.rows = hidden.size(0);
  params.width = hidden.size(1);
  params.classes = weight.size(0);
  params.hidden = hidden.const_data_ptr<C>();
  params.weight = weight.const_data_ptr<C>();
  params.labels = labels.const_data_ptr<int64_t>();
  params.smoothing = options.label_smoothing;
  params.consistency = options.consistency;
  params.loss = losses.mutable_data_ptr<double>();
  params.nll = params.loss + params.rows;
  if (options.bias.has_value()) {
    bias = options.bias->to(kType).contiguous();
    params.bias = bias.const_data_ptr<C>();
  }
  if (options.row_weight.has_value()) {
    row_weight = options.row_weight->to(kType).contiguous();
    params.row_weight = row_weight.const_data_ptr<C>();
  }
  at::Tensor hidden_gradient, weight_gradient, bias_gradient;
  if (differentiate) {
    hidden_gradient = room_like(hidden);
    weight_gradient = room_like(weight);
    if (bias.defined()) bias_gradient = room_like(bias);
    if (params.rows == 0) {
      weight_gradient.zero_();
      if (bias.defined()) bias_gradient.zero_();
    }
    params.hidden_gradient = hidden_gradient.mutable_data_ptr<C>();
    params.weight_gradient = weight_gradient.mutable_data_ptr<C>();
    if (bias.defined()) params.bias_gradient = bias_gradient.mutable_data_ptr<C>();
  }
  if (params.rows != 0) run_on_threads(params);
  const auto sum = [&](const double* from) {
    return std::accumulate(from, from + params.rows, 0.0);
  };
  const auto scalar = [](double value, at::ScalarType type) {
    return at::scalar_tensor(value, at::TensorOptions().dtype(type));
  };
  return {
      scalar(sum(params.loss), kType), scalar(sum(params.nll), at::kDouble),
      differentiate ? returned_rows(hidden_gradient, call.hidden) : nothing(call.hidden),
      differentiate ? returned_rows(weight_gradient, call.weight) : nothing(call.weight),
      bias_gradient.defined() ? returned_rows(bias_gradient, *options.bias) : nothing(call.weight)};
}

LossCall call_of(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                 const OptionalTensor& bias, const OptionalTensor& row_weight, double smoothing,
                 int64_t ignore_index, bool bfloat16_products, double consistency) {
  return {hidden,
          weight,
          labels,
          {bias, row_weight, smoothing, ignore_index, bfloat16_products, consistency}};
}

LossResult forward_cpu(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                       const OptionalTensor& bias, const OptionalTensor& row_weight,
                       double smoothing, int64_t ignore_index, bool bfloat16_products,
                       double consistency, bool differentiate) {
  const LossCall call = call_of(hidden, weight, labels, bias, row_weight, smoothing, ignore_index,
                                bfloat16_products, consistency);
  check(call);
  return row_sum_type(hidden) == at::kDouble ? forward_of<double>(call, differentiate)
                                             : forward_of<float>(call, differentiate);
}

LossResult forward_meta(const at::Tensor& hidden, const at::Tensor& weight,
                        const at::Tensor& labels, const OptionalTensor& bias,
                        const OptionalTensor& row_weight, double smoothing, int64_t ignore_index,
                        bool bfloat16_products, double consistency, bool differentiate) {
  check(call_of(hidden, weight, labels, bias, row_weight, smoothing, ignore_index,
                bfloat16_products, consistency));
  const auto scalar = [&](at::ScalarType type) {
    return at::empty_symint(c10::SymIntArrayRef{}, hidden.options().dtype(type));
  };
  const auto like = [&](const at::Tensor& tensor) {
    return differentiate ? at::empty_symint(tensor.sym_sizes(), tensor.options()) : nothing(tensor);
  };
  return {scalar(row_sum_type(hidden)), scalar(at::kDouble), like(hidden), like(weight),
          bias.has_value() ? like(*bias) : nothing(weight)};
}

GradientTriple backward_cpu(const at::Tensor& loss_gradient, const at::Tensor& hidden_gradient,
                            const at::Tensor& weight_gradient, const at::Tensor& bias_gradient) {
  return {hidden_gradient * loss_gradient, weight_gradient * loss_gradient,
          bias_gradient * loss_gradient};
}

using ForwardSignature = LossResult(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                    const OptionalTensor&, const OptionalTensor&, double, int64_t,
                                    bool, double, bool);
using BackwardSignature = GradientTriple(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                         const at::Tensor&);

const auto& forward_op() {
  static const auto op = find_op<ForwardSignature>("headwise::linear_cross_entropy_forward");
  return op;
}
const auto& backward_op() {
  static const auto op = find_op<BackwardSignature>("headwise::linear_cross_entropy_backward");
  return op;
}

struct LinearCrossEntropy : torch::autograd::Function<LinearCrossEntropy> {
  static variable_list forward(AutogradContext* ctx, const at::Tensor& hidden,
                               const at::Tensor& weight, const OptionalTensor& bias,
                               const at::Tensor& labels, const OptionalTensor& row_weight,
                               double smoothing, int64_t ignore_index, bool bfloat16_products,
                               double consistency, bool differentiate) {
    at::AutoDispatchBelowADInplaceOrView below_autograd;
    auto [loss, nll, hidden_gradient, weight_gradient, bias_gradient] =
        forward_op().call(hidden, weight, labels, bias, row_weight, smoothing, ignore_index,
                          bfloat16_products, consistency, differentiate);
    ctx->save_for_backward({hidden_gradient, weight_gradient, bias_gradient});
    ctx->saved_data["has_bias"] = bias.has_value();
    ctx->saved_data["differentiate"] = differentiate;
    ctx->mark_non_differentiable({nll, hidden_gradient, weight_gradient, bias_gradient});
    return {loss, nll, hidden_gradient, weight_gradient, bias_gradient};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    TORCH_CHECK(ctx->saved_data["differentiate"].toBool(),
                "linear_cross_entropy_forward: called with differentiate false and differentiated");
    const variable_list saved = ctx->get_saved_variables();
    auto [hidden, weight, bias] = backward_op().call(gradients[0], saved[0], saved[1], saved[2]);
    const at::Tensor none;
    return {hidden, weight, ctx->saved_data["has_bias"].toBool() ? bias : none,
            none,   none,   none,
            none,   none,   none,
            none};
  }
};

LossResult forward_autograd(const at::Tensor& hidden, const at::Tensor& weight,
                            const at::Tensor& labels, const OptionalTensor& bias,
                            const OptionalTensor& row_weight, double smoothing,
                            int64_t ignore_index, bool bfloat16_products, double consistency,
                            bool differentiate) {
  const variable_list result =
      LinearCrossEntropy::apply(hidden, weight, bias, labels, row_weight, smoothing, ignore_index,
                                bfloat16_products, consistency, differentiate);
  return {result[0], result[1], result[2], result[3], result[4]};
}

GradientTriple backward_autograd(const at::Tensor& loss_gradient, const at::Tensor& hidden_gradient,
                                 const at::Tensor& weight_gradient,
                                 const at::Tensor& bias_gradient) {
  GradientTriple result;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    result = backward_op().call(loss_gradient, hidden_gradient, weight_gradient, bias_gradient);
  }
  refuse_gradient({std::get<0>(result), std::get<1>(result), std::get<2>(result)},
                  "linear_cross_entropy: double backward is not supported, and the gradient of the "
                  "loss was differentiated again",
                  loss_gradient, hidden_gradient, weight_gradient, bias_gradient);
  return result;
}

/// The public op: gradients are made where somebody may ask for them.
std::tuple<at::Tensor, at::Tensor> loss_and_nll(const at::Tensor& hidden, const at::Tensor& weight,
                                                const at::Tensor& labels,
                                                const OptionalTensor& bias,
                                                const OptionalTensor& row_weight, double smoothing,
                                                int64_t ignore_index, bool bfloat16_products,
                                                double consistency) {
  const bool differentiate =
      torch::autograd::compute_requires_grad(hidden, weight, bias.value_or(at::Tensor()));
  auto result = forward_op().call(hidden, weight, labels, bias, row_weight, smoothing, ignore_index,
                                  bfloat16_products, consistency, differentiate);
  return {std::get<0>(result), std::get<1>(result)};
}

const char* const kArguments =
    "(Tensor hidden, Tensor weight, Tensor labels, *, Tensor? bias=None, Tensor? row_weight=None, "
    "float label_smoothing=0.0, int ignore_index=-100, bool bfloat16_products=False, float "
    "consistency=0.0";

}  // namespace

TORCH_LIBRARY_FRAGMENT(headwise, m) {
  const auto define = [&](const std::string& schema) {
    m.def(schema.c_str(), {at::Tag::pt2_compliant_tag});
  };
  define(std::string("linear_cross_entropy") + kArguments + ") -> (Tensor loss, Tensor nll)");
  define(std::string("linear_cross_entropy_forward") + kArguments +
         ", bool differentiate=False) -> (Tensor loss, Tensor nll, Tensor hidden_gradient, Tensor "
         "weight_gradient, Tensor bias_gradient)");
  define(
      "linear_cross_entropy_backward(Tensor loss_gradient, Tensor hidden_gradient, Tensor "
      "weight_gradient, Tensor bias_gradient) -> (Tensor, Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(headwise, CompositeImplicitAutograd, m) {
  m.impl("linear_cross_entropy", TORCH_FN(loss_and_nll));
}
TORCH_LIBRARY_IMPL(headwise, CPU, m) {
  m.impl("linear_cross_entropy_forward", TORCH_FN(forward_cpu));
  m.impl("linear_cross_entropy_backward", TORCH_FN(backward_cpu));
}
TORCH_LIBRARY_IMPL(headwise, Meta, m) {
  m.impl("linear_cross_entropy_forward", TORCH_FN(forward_meta));
  m.impl("linear_cross_entropy_backward", TORCH_FN(backward_cpu));
}
TORCH_LIBRARY_IMPL(headwise, Autograd, m) {
  m.impl("linear_cross_entropy_forward", TORCH_FN(forward_autograd));
  m.impl("linear_cross_entropy_backward", TORCH_FN(backward_autograd));
}

}  // namespace ops

LinearCrossEntropyResult linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                                              const at::Tensor& labels,
                                              const LinearCrossEntropyOptions& options) {
  auto [loss, nll] = ops::loss_and_nll(hidden, weight, labels, options.bias, options.row_weight,
                                       options.label_smoothing, options.ignore_index,
                                       options.bfloat16_products, options.consistency);
  return {loss, nll};
}

}  // namespace headwise
