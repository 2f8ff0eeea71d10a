#include "src/analysis/shapes.h"

#include <c10/core/GradMode.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "src/analysis/op_recorder.h"

namespace headwise::analysis {
namespace {

/// Operations that compute; every other one only moves or renames what is there.
bool computes(const std::string& op) {
  static constexpr std::array<std::string_view, 6> kNames = {
      "aten::matmul", "aten::linear", "aten::addmm", "aten::add", "aten::add_", "aten::mul"};
  return op.starts_with("headwise::") ||
         std::find(kNames.begin(), kNames.end(), op) != kNames.end();
}

/// Names steps by what they act on: a projection by its weight, everything after it by the memory
/// it reads.
class Narrator {
 public:
  Narrator(const nn::MultiHeadAttention& module, const at::Tensor& query,
           const at::Tensor& source) {
    add_parameters("q", module->q_proj);
    add_parameters("k", module->k_proj);
    add_parameters("v", module->v_proj);
    add_parameters("the output", module->out_proj);
    const bool self = query.is_same(source);
    add_input(self ? "query, key and value" : "query", query);
    if (!self) add_input("key and value", source);
  }

  void tell(const RecordedOp& op) {
    if (op.name == "headwise::attention") {
      tell_attention(op);
      return;
    }
    for (const at::Tensor& output : op.outputs) {
      if (parameters_.contains(address(output))) continue;  // a view of a weight is no step
      const Part part = part_of(op);
      add(name_of(op, part), op, output, part.subject);
    }
  }

  std::vector<ShapeStep> steps;

 private:
  using Address = const void*;
  static Address address(const at::Tensor& tensor) {
    return tensor.storage().unsafeGetStorageImpl();
  }

  static ShapeStep describe(const at::Tensor& tensor) {
    ShapeStep step;
    step.sizes = tensor.sizes().vec();
    step.strides = tensor.strides().vec();
    step.bytes = tensor.numel() * tensor.element_size();
    step.contiguous = tensor.is_contiguous();
    return step;
  }

  void add_input(const std::string& name, const at::Tensor& tensor) {
    ShapeStep step = describe(tensor);
    step.name = name;
    step.memory = Memory::kInput;
    steps.push_back(std::move(step));
    subjects_[address(tensor)] = makers_[address(tensor)] = name;
  }

  void add(const std::string& name, const RecordedOp& op, const at::Tensor& output,
           const std::string& subject) {
    ShapeStep step = describe(output);
    step.name = name;
    step.op = op.name;
    step.allocated = op.allocated;
    const auto maker = makers_.find(address(output));
    if (maker != makers_.end()) {
      step.memory = Memory::kView;
      step.shares_with = maker->second;
    } else {
      step.copied = !computes(op.name);
      makers_[address(output)] = name;
    }
    subjects_[address(output)] = subject;
    steps.push_back(std::move(step));
  }

  void add_never(const std::string& name, const at::Tensor& query, const at::Tensor& key) {
    ShapeStep step;
    step.name = name;
    step.sizes = {query.size(0), query.size(1), query.size(2), key.size(2)};
    step.bytes = query.size(0) * query.size(1) * query.size(2) * key.size(2) * query.element_size();
    step.memory = Memory::kNever;
    steps.push_back(std::move(step));
  }

  void tell_attention(const RecordedOp& op) {
    add_never("scores of q and k", op.inputs.at(0), op.inputs.at(1));
    add_never("softmax of the scores", op.inputs.at(0), op.inputs.at(1));
    add("weighted sum of v", op, op.outputs.at(0), "heads");
    add("log-sum-exp of the scores", op, op.outputs.at(1), "log-sum-exp");
    steps.back().allocated = 0;  // told in the row above, for both results together
  }

  /// What an operation acts on, and whether a weight or a bias takes part.
  struct Part {
    std::string subject;
    enum { kNone, kWeight, kBias } parameter = kNone;
  };

  Part part_of(const RecordedOp& op) const {
    for (const at::Tensor& input : op.inputs) {
      const auto found = parameters_.find(address(input));
      if (found != parameters_.end()) return found->second;
    }
    if (op.inputs.empty()) return {"nothing"};
    const auto found = subjects_.find(address(op.inputs[0]));
    return {found == subjects_.end() ? "something new" : found->second};
  }

  void add_parameters(const char* subject, const torch::nn::Linear& layer) {
    if (layer.is_empty()) return;
    parameters_[address(layer->weight)] = {subject, Part::kWeight};
    if (layer->bias.defined()) parameters_[address(layer->bias)] = {subject, Part::kBias};
  }

  static std::string name_of(const RecordedOp& op, const Part& part) {
    const std::string& subject = part.subject;
    if (part.parameter == Part::kWeight) return "project " + subject;
    if (part.parameter == Part::kBias) return "add the bias of " + subject;
    if (op.name == "aten::unflatten") return "split heads of " + subject;
    if (op.name == "aten::transpose") {
      return subject == "heads" ? "merge heads: tokens first" : "heads of " + subject + " first";
    }
    if (op.name == "aten::view" && subject == "heads") return "merge heads: join";
    return op.name + " of " + subject;
  }

  std::map<Address, Part> parameters_;       // memory of weights and biases
  std::map<Address, std::string> makers_;    // memory -> the step that made it
  std::map<Address, std::string> subjects_;  // memory -> what it holds
};

}  // namespace

std::vector<ShapeStep> steps_of(const std::function<void()>& call,
                                const nn::MultiHeadAttention& module, const at::Tensor& query,
                                const at::Tensor& source) {
  const c10::NoGradGuard no_grad;
  const std::vector<RecordedOp> ops = record_ops(call);
  Narrator narrator(module, query, source);
  for (const RecordedOp& op : ops) narrator.tell(op);
  return std::move(narrator.steps);
}

std::vector<ShapeStep> attention_steps(nn::MultiHeadAttention module, const at::Tensor& query,
                                       const at::Tensor& source) {
  return steps_of([&] { module->forward(query, source, source); }, module, query, source);
}

}  // namespace headwise::analysis
