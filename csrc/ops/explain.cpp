// What a call would run, in words: from the params and the plan of the launch itself.
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <sstream>
#include <string>

#include "csrc/kernels/attention/plan.h"
#include "csrc/ops/checks.h"
#include "csrc/ops/dispatch.h"
#include "csrc/ops/fill.h"
#include "csrc/ops/launch.h"

namespace headwise::ops {

namespace {

const char* dtype_name(at::ScalarType dtype) {
  switch (dtype) {
    case at::kDouble:
      return "float64";
    case at::kBFloat16:
      return "bfloat16";
    case at::kHalf:
      return "float16";
    default:
      return "float32";
  }
}

std::string bound(int64_t side) { return side < 0 ? "unbounded" : std::to_string(side); }

std::string describe_masks(const AttentionOptions& o) {
  std::string text;
  const auto add = [&text](const std::string& what) { text += (text.empty() ? "" : ", ") + what; };
  const auto shape = [](const char* name, const at::Tensor& tensor) {
    std::ostringstream words;
    words << name << ' ' << tensor.sizes();
    return words.str();
  };
  if (o.hide.has_value()) add(shape("hide", *o.hide));
  if (o.keep.has_value()) add(shape("keep", *o.keep));
  if (o.bias.has_value()) {
    add(shape("bias", *o.bias) + (o.bias->requires_grad() ? " with gradient" : ""));
  }
  if (o.query_lengths.has_value()) add("query_lengths");
  if (o.key_lengths.has_value()) add("key_lengths");
  const std::string align = std::string(" (align ") + std::string(align_word(o.align)) + ")";
  if (o.causal) add("causal" + align);
  if (o.window.has_value()) {
    add("window (" + bound((*o.window)[0]) + ", " + bound((*o.window)[1]) + ")" + align);
  }
  return text.empty() ? "none" : text;
}

void describe_plan(const char* pass, const kernels::Plan& plan, std::ostream& text) {
  text << pass << ": kernel " << plan.kernel << ", instruction set " << plan.instruction_set
       << "\n  tile: " << plan.tile.rows << " query rows x " << plan.tile.keys << " keys"
       << "\n  item: up to " << plan.block.rows << " query rows x " << plan.block.keys << " keys\n";
  for (size_t n = 0; n < plan.phases.size(); ++n) {
    const kernels::Phase& phase = plan.phases[n];
    const int64_t workers = workers_of(phase);
    text << "  phase " << n + 1 << " of " << plan.phases.size() << ": items " << phase.items
         << ", threads " << workers << ", scratch bytes a thread " << phase.scratch_bytes << '\n';
  }
  text << "  workspace bytes: " << plan.workspace_bytes << '\n';
}

template <typename T>
void describe_plans(const Call& call, const Positions& positions, std::ostream& text) {
  kernels::ForwardParams<T> forward;
  fill_inputs(call, positions, forward);
  describe_plan("forward", kernels::plan(forward), text);
  kernels::BackwardParams<T> backward;
  fill_inputs(call, positions, backward);
  const OptionalTensor& bias = call.options.bias;
  at::Tensor gradient;  // never written
  if (bias.has_value() && bias->requires_grad()) {
    gradient = at::empty(bias->sizes(), call.query.options().dtype(sum_dtype(call.query)));
    const auto [batch, head, row, column] = element_strides(gradient);
    backward.bias_gradient = {gradient.mutable_data_ptr<kernels::Compute<T>>(), batch, head, row,
                              column};
  }
  describe_plan("backward", kernels::plan(backward), text);
}

std::string explain(const Call& given) {
  Call call = given;
  // attention() would draw a seed; which one makes no difference here.
  if (call.options.dropout > 0.0 && !call.options.seed.has_value()) {
    call.options.seed = at::zeros({}, call.query.options().dtype(at::kLong));
  }
  check_call(call);
  const Positions positions = read_positions(call);
  const AttentionOptions& o = call.options;
  std::ostringstream text;
  text << "attention, " << (call.packed() ? "packed" : "padded") << ", "
       << dtype_name(call.query.scalar_type()) << " on " << call.query.device() << "\n  sequences "
       << positions.sequences.count << ", query heads " << call.query.size(1)
       << ", key/value heads " << call.key.size(1) << ", queries " << positions.sequences.query_rows
       << ", keys " << positions.sequences.key_rows << ", head width " << call.query.size(-1)
       << ", value width " << call.value.size(-1) << "\n  masks: " << describe_masks(o)
       << "\n  dropout: " << o.dropout << '\n';
  with_element_type(call.query.scalar_type(),
                    [&](auto type) { describe_plans<decltype(type)>(call, positions, text); });
  return text.str();
}

}  // namespace

TORCH_LIBRARY_IMPL(headwise, CPU, m) {
  m.impl("explain", TORCH_FN(Padded<&explain>::call));
  m.impl("explain_packed", TORCH_FN(Packed<&explain>::call));
}

}  // namespace headwise::ops
