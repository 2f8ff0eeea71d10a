// Dropout of the ops on rows of tokens, for C++ callers.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/SymInt.h>

#include <optional>

namespace headwise {

struct DropoutOptions {
  double probability = 0.0;  // 0 <= probability < 1, in steps of 1/65536; the rest is scaled up
  /// 0-dim int64: the same seed and offset drop the same numbers, for every thread count. Drawn
  /// from the default generator when something is to be dropped and none is given.
  std::optional<at::Tensor> seed;
  c10::SymInt offset = 0;  // 0 <= offset < 2^32: another stream of the same seed

  bool drops() const { return probability > 0; }
};

}  // namespace headwise
