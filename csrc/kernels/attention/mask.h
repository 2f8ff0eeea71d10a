// Which keys a query row may see by position: lengths, causal, window and alignment. Written once,
// for host and device; element masks (hide, bias) are looked up by the kernels inside this range.
#pragma once

#include <cstdint>

#include "csrc/kernels/host_device.h"

namespace headwise::kernels {

struct MaskRule {
  bool causal = false;
  bool align_end = true;          // row i stands at key i + (T_k - T_q), else at key i
  int64_t left = -1, right = -1;  // window around that key; -1 = unbounded
};

struct KeyRange {
  int64_t begin = 0, end = 0;  // keys begin … end - 1; empty when equal
};

/// Keys that row i of a sequence may see. Rows past query_length do not exist and see nothing.
HEADWISE_HOST_DEVICE inline KeyRange visible_range(const MaskRule& rule, int64_t i,
                                                   int64_t query_length, int64_t key_length) {
  if (i >= query_length) return {};
  const int64_t center = rule.align_end ? i + key_length - query_length : i;
  const int64_t right = rule.causal ? 0 : rule.right;
  KeyRange range{0, key_length};
  if (rule.left >= 0 && center > rule.left) range.begin = center - rule.left;
  // Compared without adding: right may be as large as an int64 gets.
  if (right >= 0 && right < key_length - 1 - center) range.end = center + right + 1;
  if (range.end <= range.begin) return {};
  return range;
}

}  // namespace headwise::kernels
