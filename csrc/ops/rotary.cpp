#include "csrc/ops/rotary.h"

#include <ATen/core/enum_tag.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "csrc/kernels/rotary/params.h"
#include "csrc/ops/find_op.h"
#include "csrc/ops/launch.h"
#include "csrc/ops/rows.h"

namespace headwise {
namespace ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

constexpr char kName[] = "rotary";

void check(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine) {
  TORCH_CHECK_VALUE(heads.dim() == 3, kName, ": heads (N, H, D) are needed; they have sizes ",
                    heads.sym_sizes());
  check_row_type(kName, "heads", heads, "heads", heads);
  const c10::SymInt width = heads.sym_size(2);
  TORCH_CHECK_VALUE(width > 0 && width % 2 == 0, kName,
                    ": pairs of channels are turned, and D of heads is ", width,
                    "; an even number of at least 2 is needed");
  const auto check_table = [&](const char* name, const at::Tensor& table) {
    TORCH_CHECK_TYPE(table.scalar_type() == row_sum_type(heads), kName, ": ", name, " is ",
                     table.scalar_type(), " and heads ", heads.scalar_type(), "; ",
                     row_sum_type(heads), " is needed");
    TORCH_CHECK_VALUE(table.dim() == 2 && table.sym_size(1) * 2 == width, kName, ": ", name,
                      " has sizes ", table.sym_sizes(), "; (P, D / 2) is needed with D = ", width);
    TORCH_CHECK_VALUE(!table.requires_grad(), kName, ": ", name,
                      " requires a gradient and has none; detach it");
  };
  check_table("cosine", cosine);
  check_table("sine", sine);
  TORCH_CHECK_VALUE(cosine.sym_size(0) == sine.sym_size(0), kName, ": cosine and sine have ",
                    cosine.sym_size(0), " and ", sine.sym_size(0), " rows; they need as many");
}

template <typename C>
at::Tensor turned(const at::Tensor& given, const at::Tensor& given_cosine,
                  const at::Tensor& given_sine, bool inverse) {
  const at::Tensor heads = prepared_rows(given, row_sum_type(given), 1);
  const at::Tensor cosine = given_cosine.contiguous(), sine = given_sine.contiguous();
  const at::Tensor y = room_like(heads);
  kernels::RotaryParams<C> params;
  params.rows = heads.size(0);
  params.heads = heads.size(1);
  params.width = heads.size(2);
  params.positions = cosine.size(0);
  params.cosine = cosine.const_data_ptr<C>();
  params.sine = sine.const_data_ptr<C>();
  params.inverse = inverse;
  params.x = heads.const_data_ptr<C>();
  params.y = y.mutable_data_ptr<C>();
  run_on_threads(params);
  return y.to(given.scalar_type());
}

at::Tensor rotary_cpu(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine,
                      bool inverse) {
  check(heads, cosine, sine);
  const int64_t rows = heads.size(0), positions = cosine.size(0);
  TORCH_CHECK_VALUE(positions == 0 ? rows == 0 : rows % positions == 0, kName, ": heads have ",
                    rows, " rows; a multiple of the ", positions,
                    " rows of cosine and sine is needed");
  return row_sum_type(heads) == at::kDouble ? turned<double>(heads, cosine, sine, inverse)
                                            : turned<float>(heads, cosine, sine, inverse);
}

at::Tensor rotary_meta(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine,
                       bool /*inverse*/) {
  check(heads, cosine, sine);
  return at::empty_symint(heads.sym_sizes(), heads.options());
}

const auto& rotary_op() {
  using Signature = at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&, bool);
  static const auto op = find_op<Signature>("headwise::rotary");
  return op;
}

/// A turn is linear, and its gradient is the turn back.
struct Rotary : torch::autograd::Function<Rotary> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& heads, const at::Tensor& cosine,
                            const at::Tensor& sine, bool inverse) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    ctx->save_for_backward({cosine, sine});
    ctx->saved_data["inverse"] = inverse;
    return rotary_op().call(heads, cosine, sine, inverse);
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const variable_list saved = ctx->get_saved_variables();
    const bool inverse = ctx->saved_data["inverse"].toBool();
    return {rotary_op().call(gradients[0], saved[0], saved[1], !inverse), at::Tensor(),
            at::Tensor(), at::Tensor()};
  }
};

at::Tensor rotary_autograd(const at::Tensor& heads, const at::Tensor& cosine,
                           const at::Tensor& sine, bool inverse) {
  return Rotary::apply(heads, cosine, sine, inverse);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(headwise, m) {
  m.def("rotary(Tensor heads, Tensor cosine, Tensor sine, *, bool inverse=False) -> Tensor",
        {at::Tag::pt2_compliant_tag});
}
TORCH_LIBRARY_IMPL(headwise, CPU, m) { m.impl("rotary", TORCH_FN(rotary_cpu)); }
TORCH_LIBRARY_IMPL(headwise, Meta, m) { m.impl("rotary", TORCH_FN(rotary_meta)); }
TORCH_LIBRARY_IMPL(headwise, Autograd, m) { m.impl("rotary", TORCH_FN(rotary_autograd)); }

}  // namespace ops

at::Tensor rotary(const at::Tensor& heads, const at::Tensor& cosine, const at::Tensor& sine) {
  return ops::rotary_op().call(heads, cosine, sine, false);
}

}  // namespace headwise
