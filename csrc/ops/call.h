// One attention call, padded or packed, as every step inside the ops sees it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/OptionalArrayRef.h>

#include <array>
#include <optional>
#include <string_view>
#include <tuple>

#include "csrc/ops/attention.h"
#include "csrc/ops/dropout_options.h"

namespace headwise::ops {

using OptionalTensor = std::optional<at::Tensor>;
using TensorPair = std::tuple<at::Tensor, at::Tensor>;                          // output, lse
using TensorQuad = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;  // q, k, v, bias

/// Sequences lying end to end.
struct Packing {
  at::Tensor query_starts, key_starts;  // (B + 1)
  c10::SymInt max_query, max_key;
};

struct Call {
  at::Tensor query, key;
  at::Tensor value;                // undefined when only weights are asked for
  std::optional<Packing> packing;  // absent: padded form
  AttentionOptions options;

  bool packed() const { return packing.has_value(); }

  /// The element mask, whichever way round it was given.
  const OptionalTensor& mask() const {
    return options.hide.has_value() ? options.hide : options.keep;
  }
  DropoutOptions dropout() const { return {options.dropout, options.seed, options.offset}; }
};

/// @throws c10::ValueError for another word than "end" and "start".
Align parse_align(std::string_view word);
std::string_view align_word(Align align);

/// @throws c10::ValueError unless there are two entries.
std::optional<std::array<int64_t, 2>> parse_window(at::OptionalIntArrayRef window);
at::OptionalIntArrayRef window_list(const std::optional<std::array<int64_t, 2>>& window);

}  // namespace headwise::ops
