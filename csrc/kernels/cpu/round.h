// Rounding up.
#pragma once

#include <cstdint>

namespace headwise::kernels::cpu {

constexpr int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

/// Widths are padded to whole vectors of any instruction set.
template <typename C>
constexpr int64_t padded(int64_t width) {
  constexpr int64_t kLanes = 64 / sizeof(C);
  return (width + kLanes - 1) / kLanes * kLanes;
}

}  // namespace headwise::kernels::cpu
