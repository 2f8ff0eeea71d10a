#include "csrc/ops/linear_bfloat16.h"

#include <ATen/core/enum_tag.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>

#include "csrc/kernels/cpu/instruction_set.h"
#include "csrc/kernels/linear/params.h"
#include "csrc/ops/find_op.h"
#include "csrc/ops/launch.h"
#include "csrc/ops/memory.h"
#include "csrc/ops/refuse_gradient.h"

namespace headwise {
namespace ops {
namespace {

using at::Tensor;
using at::TensorList;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr int64_t kMultiple = kernels::kLinearWidthMultiple;

void check_matrix(const char* name, const Tensor& tensor) {
  TORCH_CHECK_TYPE(tensor.scalar_type() == at::kFloat, "linear_bfloat16: ", name, " is ",
                   tensor.scalar_type(), "; float32 is needed");
  TORCH_CHECK_VALUE(tensor.dim() == 2 && tensor.sym_size(1) > 0, "linear_bfloat16: ", name,
                    " needs two axes, the last at least 1; it has sizes ", tensor.sym_sizes());
}

void check_width(const char* name, const c10::SymInt& width) {
  TORCH_CHECK_VALUE(width > 0 && width % kMultiple == 0, "linear_bfloat16: ", name, " is ", width,
                    "; a multiple of ", kMultiple, " is needed");
}

void check(const Tensor& x, TensorList weights) {
  check_matrix("x", x);
  check_width("the width of x", x.sym_size(1));
  TORCH_CHECK_VALUE(
      !weights.empty() && weights.size() <= static_cast<size_t>(kernels::kMostLinearParts),
      "linear_bfloat16: ", weights.size(), " weights came; 1 to ", kernels::kMostLinearParts,
      " are possible");
  for (const Tensor& weight : weights) {
    check_matrix("a weight", weight);
    TORCH_CHECK_VALUE(weight.sym_size(1) == x.sym_size(1), "linear_bfloat16: a weight has sizes ",
                      weight.sym_sizes(), "; (J, E) is needed with E = ", x.sym_size(1));
    check_width("the height of a weight", weight.sym_size(0));
  }
}

void check_biases(TensorList weights, TensorList biases) {
  TORCH_CHECK_VALUE(biases.empty() || biases.size() == weights.size(),
                    "linear_bfloat16: ", biases.size(), " biases came; none or one for each of ",
                    weights.size(), " weights is needed");
  for (size_t p = 0; p < biases.size(); ++p) {
    TORCH_CHECK_TYPE(biases[p].scalar_type() == at::kFloat, "linear_bfloat16: a bias is ",
                     biases[p].scalar_type(), "; float32 is needed");
    TORCH_CHECK_VALUE(biases[p].dim() == 1 && biases[p].sym_size(0) == weights[p].sym_size(0),
                      "linear_bfloat16: a bias has sizes ", biases[p].sym_sizes(),
                      "; (J) is needed with J = ", weights[p].sym_size(0));
  }
}

void check_gradients(const Tensor& x, TensorList weights, TensorList gradients) {
  check(x, weights);
  TORCH_CHECK_VALUE(gradients.size() == weights.size(),
                    "linear_bfloat16_backward: ", gradients.size(), " gradients came; ",
                    weights.size(), " are needed");
  for (size_t p = 0; p < gradients.size(); ++p) {
    check_matrix("a gradient", gradients[p]);
    TORCH_CHECK_VALUE(gradients[p].sym_size(0) == x.sym_size(0) &&
                          gradients[p].sym_size(1) == weights[p].sym_size(0),
                      "linear_bfloat16_backward: a gradient has sizes ", gradients[p].sym_sizes(),
                      "; (", x.sym_size(0), ", ", weights[p].sym_size(0), ") is needed");
  }
}

Tensor room(int64_t rows, int64_t width) {
  return empty_kept({rows, width}, {width, 1}, at::kFloat);
}

/// Contiguous, and kept alive as long as the kernel reads it.
class Inputs {
 public:
  const float* operator()(const Tensor& tensor) {
    return kept_.emplace_back(tensor.contiguous()).const_data_ptr<float>();
  }

 private:
  std::vector<Tensor> kept_;
};

std::vector<Tensor> forward_cpu(const Tensor& x, TensorList weights, TensorList biases) {
  check(x, weights);
  check_biases(weights, biases);
  Inputs data;
  std::vector<Tensor> results;
  kernels::LinearParams params;
  params.instruction = kernels::cpu::multiplies_pairs();
  params.rows = x.size(0);
  params.width = x.size(1);
  params.x = data(x);
  for (size_t p = 0; p < weights.size(); ++p) {
    kernels::LinearPart& part = params.parts[params.count++];
    part.width = weights[p].size(0);
    part.weight = data(weights[p]);
    if (!biases.empty()) part.bias = data(biases[p]);
    part.y = results.emplace_back(room(params.rows, part.width)).mutable_data_ptr<float>();
  }
  run_on_threads(params);
  return results;
}

std::vector<Tensor> forward_meta(const Tensor& x, TensorList weights, TensorList biases) {
  check(x, weights);
  check_biases(weights, biases);
  std::vector<Tensor> results;
  for (const Tensor& weight : weights) {
    results.push_back(at::empty_symint({x.sym_size(0), weight.sym_size(0)}, x.options()));
  }
  return results;
}

/// Gradients of x (of size 0 unless asked for), of the weights and, if asked for, of the biases.
std::vector<Tensor> backward_cpu(const Tensor& x, TensorList weights, TensorList gradients,
                                 bool x_gradient, bool bias_gradients) {
  check_gradients(x, weights, gradients);
  Inputs data;
  std::vector<Tensor> results, biases;
  kernels::LinearGradientParams params;
  params.instruction = kernels::cpu::multiplies_pairs();
  params.rows = x.size(0);
  params.width = x.size(1);
  params.x = data(x);
  results.push_back(x_gradient ? room(params.rows, params.width) : at::empty({0}, x.options()));
  if (x_gradient) params.x_gradient = results[0].mutable_data_ptr<float>();
  for (size_t p = 0; p < weights.size(); ++p) {
    kernels::LinearGradientPart& part = params.parts[params.count++];
    part.width = weights[p].size(0);
    if (x_gradient) part.weight = data(weights[p]);
    part.y_gradient = data(gradients[p]);
    results.push_back(room(part.width, params.width));
    part.weight_gradient = results.back().mutable_data_ptr<float>();
    if (!bias_gradients) continue;
    biases.push_back(at::empty({part.width}, x.options()));
    part.bias_gradient = biases.back().mutable_data_ptr<float>();
  }
  run_on_threads(params);
  results.insert(results.end(), biases.begin(), biases.end());
  return results;
}

std::vector<Tensor> backward_meta(const Tensor& x, TensorList weights, TensorList gradients,
                                  bool x_gradient, bool bias_gradients) {
  check_gradients(x, weights, gradients);
  std::vector<Tensor> results = {x_gradient ? at::empty_symint(x.sym_sizes(), x.options())
                                            : at::empty({0}, x.options())};
  for (const Tensor& weight : weights) {
    results.push_back(at::empty_symint(weight.sym_sizes(), weight.options()));
  }
  for (size_t p = 0; bias_gradients && p < weights.size(); ++p) {
    results.push_back(at::empty_symint({weights[p].sym_size(0)}, x.options()));
  }
  return results;
}

using ForwardSignature = std::vector<Tensor>(const Tensor&, TensorList, TensorList);
using BackwardSignature = std::vector<Tensor>(const Tensor&, TensorList, TensorList, bool, bool);

const auto& forward_op() {
  static const auto op = find_op<ForwardSignature>("headwise::linear_bfloat16");
  return op;
}
const auto& backward_op() {
  static const auto op = find_op<BackwardSignature>("headwise::linear_bfloat16_backward");
  return op;
}

struct LinearBFloat16 : torch::autograd::Function<LinearBFloat16> {
  static variable_list forward(AutogradContext* ctx, const Tensor& x, TensorList weights,
                               TensorList biases) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    variable_list saved = {x};
    saved.insert(saved.end(), weights.begin(), weights.end());
    ctx->save_for_backward(std::move(saved));
    ctx->saved_data["biases"] = static_cast<int64_t>(biases.size());
    return forward_op().call(x, weights, biases);
  }

  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const TensorList weights = TensorList(saved).slice(1);
    for (size_t p = 0; p < gradients.size(); ++p) {
      if (gradients[p].defined()) continue;
      gradients[p] =
          at::zeros_symint({saved[0].sym_size(0), weights[p].sym_size(0)}, saved[0].options());
    }
    const bool biases = ctx->saved_data["biases"].toInt() > 0, x = ctx->needs_input_grad(0);
    variable_list results = backward_op().call(saved[0], weights, gradients, x, biases);
    if (!x) results[0] = Tensor();
    return results;
  }
};

std::vector<Tensor> forward_autograd(const Tensor& x, TensorList weights, TensorList biases) {
  return LinearBFloat16::apply(x, weights, biases);
}

std::vector<Tensor> backward_autograd(const Tensor& x, TensorList weights, TensorList gradients,
                                      bool x_gradient, bool bias_gradients) {
  std::vector<Tensor> results;
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    results = backward_op().call(x, weights, gradients, x_gradient, bias_gradients);
  }
  refuse_gradient(results,
                  "linear_bfloat16: double backward is not supported, and a gradient was "
                  "differentiated again",
                  x, weights, gradients);
  return results;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(headwise, m) {
  m.def("linear_bfloat16(Tensor x, Tensor[] weights, Tensor[] biases) -> Tensor[]",
        {at::Tag::pt2_compliant_tag});
  m.def(
      "linear_bfloat16_backward(Tensor x, Tensor[] weights, Tensor[] gradients, bool x_gradient, "
      "bool bias_gradients) -> Tensor[]",
      {at::Tag::pt2_compliant_tag});
}
TORCH_LIBRARY_IMPL(headwise, CPU, m) {
  m.impl("linear_bfloat16", TORCH_FN(forward_cpu));
  m.impl("linear_bfloat16_backward", TORCH_FN(backward_cpu));
}
TORCH_LIBRARY_IMPL(headwise, Meta, m) {
  m.impl("linear_bfloat16", TORCH_FN(forward_meta));
  m.impl("linear_bfloat16_backward", TORCH_FN(backward_meta));
}
TORCH_LIBRARY_IMPL(headwise, Autograd, m) {
  m.impl("linear_bfloat16", TORCH_FN(forward_autograd));
  m.impl("linear_bfloat16_backward", TORCH_FN(backward_autograd));
}

}  // namespace ops

std::vector<at::Tensor> linear_bfloat16(const at::Tensor& x, at::TensorList weights,
                                        at::TensorList biases) {
  return ops::forward_op().call(x, weights, biases);
}

bool has_bfloat16_products() { return kernels::cpu::multiplies_pairs(); }

}  // namespace headwise
