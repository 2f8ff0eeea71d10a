// Lengths and starts as the kernels read them: int64 on the CPU, their values checked.
#pragma once

#include "csrc/kernels/attention/params.h"
#include "csrc/ops/call.h"

namespace headwise::ops {

/// Owns the tensors that `sequences` points into.
struct Positions {
  at::Tensor query_starts, key_starts, query_lengths, key_lengths;
  kernels::Sequences sequences;

  /// Whether some rows of a packed tensor lie before the first or after the last sequence.
  bool leaves_queries_out(int64_t rows) const;
  bool leaves_keys_out(int64_t rows) const;
};

/// Reads the tensors of a call on the CPU.
/// @throws c10::ValueError for a length outside its tensor, starts that fall or leave the tensor,
/// and masks smaller than the longest packed sequence.
Positions read_positions(const Call& call);

/// (B) int32 or int64 → int64, each within [0, limit].
at::Tensor read_lengths(const char* name, const at::Tensor& lengths, int64_t limit);

}  // namespace headwise::ops
