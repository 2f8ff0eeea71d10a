// What the dispatcher does on this thread: every outermost operation with its tensors, and how much
// memory torch took for it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace headwise::analysis {

struct RecordedOp {
  std::string name;                // "aten::linear"
  std::vector<at::Tensor> inputs;  // the defined tensors among the arguments, in order
  std::vector<at::Tensor> outputs;
  int64_t allocated = 0;  // the most bytes held at once beyond what was held before
};

/// Runs `call` and gives the operations it made; those inside another operation are not listed.
/// Results are kept alive, so that no two of them can share an address by chance.
std::vector<RecordedOp> record_ops(const std::function<void()>& call);

}  // namespace headwise::analysis
