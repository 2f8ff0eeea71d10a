#include "src/analysis/op_recorder.h"

#include <ATen/core/ivalue.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace headwise::analysis {
namespace {

constexpr auto kSlot = c10::DebugInfoKind::PROFILER_STATE;  // where torch looks for its listener

/// Callbacks are plain functions; this object is what they find by way of their thread.
class Recorder : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void* /*data*/, int64_t bytes, size_t /*allocated*/, size_t /*reserved*/,
                         c10::Device /*device*/) override {
    held_ += bytes;  // negative when memory is given back
    most_ = std::max(most_, held_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  /// Arguments can be read when an operation begins, results when it ends.
  void begin(const at::RecordFunction& function) {
    if (depth_++ > 0) return;
    held_ = most_ = 0;
    current_ = RecordedOp{.name = function.name(), .inputs = {}, .outputs = {}};
    for (const c10::IValue& input : function.inputs()) add_tensors(input, current_.inputs);
  }
  void end(const at::RecordFunction& function) {
    if (--depth_ > 0) return;
    current_.allocated = most_;
    for (const c10::IValue& output : function.outputs()) add_tensors(output, current_.outputs);
    ops.push_back(std::move(current_));
  }

  std::vector<RecordedOp> ops;

 private:
  static void add_tensors(const c10::IValue& value, std::vector<at::Tensor>& tensors) {
    if (value.isTensor()) {
      if (value.toTensor().defined()) tensors.push_back(value.toTensor());
    } else if (value.isTuple()) {
      for (const c10::IValue& element : value.toTupleRef().elements()) {
        add_tensors(element, tensors);
      }
    }
  }

  RecordedOp current_;
  int depth_ = 0;
  int64_t held_ = 0, most_ = 0;
};

Recorder& recorder() { return *static_cast<Recorder*>(c10::ThreadLocalDebugInfo::get(kSlot)); }

std::unique_ptr<at::ObserverContext> on_begin(const at::RecordFunction& function) {
  recorder().begin(function);
  return nullptr;
}

void on_end(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
  recorder().end(function);
}

class CallbackGuard {
 public:
  CallbackGuard()
      : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(&on_begin, &on_end)
                                               .needsInputs(true)
                                               .needsOutputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {}
  ~CallbackGuard() { at::removeCallback(handle_); }
  CallbackGuard(const CallbackGuard&) = delete;
  CallbackGuard& operator=(const CallbackGuard&) = delete;

 private:
  at::CallbackHandle handle_;
};

}  // namespace

std::vector<RecordedOp> record_ops(const std::function<void()>& call) {
  const auto recording = std::make_shared<Recorder>();
  const c10::DebugInfoGuard listening(kSlot, recording);
  const CallbackGuard callbacks;
  call();
  return std::move(recording->ops);
}

}  // namespace headwise::analysis
