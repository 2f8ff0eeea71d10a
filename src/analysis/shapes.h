// Multi-head attention step by step: the sizes, strides and memory of what really happened in one
// call of the module, seen from torch's dispatcher.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "csrc/nn/multi_head_attention.h"

namespace headwise::analysis {

/// Where the result of a step lies.
enum class Memory {
  kInput,  // given by the caller
  kNew,    // memory of its own
  kView,   // memory of an earlier step
  kNever,  // nowhere: no array of this shape exists
};

struct ShapeStep {
  std::string name;  // what the step does, "split heads of q"
  std::string op;    // the dispatcher's name; empty for inputs and for what is never stored
  std::vector<int64_t> sizes, strides;  // strides in elements; empty for what is never stored
  int64_t bytes = 0;                    // elements times their size
  bool contiguous = false;
  Memory memory = Memory::kNew;
  std::string shares_with;  // Memory::kView: the step that made the memory
  bool copied = false;      // an operation that only rearranges gave memory of its own
  int64_t allocated = 0;    // the most bytes torch held at once in this step beyond before it
};

/// Calls `module` on query (B, T_q, E) and source (B, T_k, E) and tells every step in order.
/// Self-attention when `source` is `query`. No gradient is recorded.
/// @throws c10::Error as the module does.
std::vector<ShapeStep> attention_steps(nn::MultiHeadAttention module, const at::Tensor& query,
                                       const at::Tensor& source);

/// The steps of `call`, which uses the layers of `module` on `query` and `source` in its own way.
std::vector<ShapeStep> steps_of(const std::function<void()>& call,
                                const nn::MultiHeadAttention& module, const at::Tensor& query,
                                const at::Tensor& source);

}  // namespace headwise::analysis
