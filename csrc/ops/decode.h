// The two inference ops on a key/value cache, as structs, and their checks.
#pragma once

#include "csrc/ops/call.h"

namespace headwise::ops {

struct DecodeCall {
  const at::Tensor &query, &key_cache, &value_cache, &lengths;
  bool causal;
  std::optional<std::array<int64_t, 2>> window;
  const OptionalTensor &bias, &hide, &beam_index;
  std::optional<double> scale;
};

struct AppendCall {
  const at::Tensor &key_cache, &value_cache, &key, &value, &lengths;
  std::optional<c10::SymInt> max_length;
};

/// Sizes, types and devices only. @throws c10::ValueError as checks.h.
void check_decode(const DecodeCall& call);
void check_cache_append(const AppendCall& call);

}  // namespace headwise::ops
