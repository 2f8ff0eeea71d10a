// Runs a kernel's plan the way a caller would, on one thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "csrc/kernels/attention/plan.h"

namespace headwise::testing {

enum class Order { kForwards, kBackwards };  // of the items of a phase

/// Scratch holds rubbish, as a caller's may.
template <typename Params>
void run_plan(const Params& params, Order order = Order::kForwards) {
  const kernels::Plan plan = kernels::plan(params);
  std::vector<std::byte> workspace(plan.workspace_bytes, std::byte{0xFF});
  for (size_t phase = 0; phase < plan.phases.size(); ++phase) {
    const auto& [items, bytes, cost] = plan.phases[phase];
    std::vector<std::byte> scratch(bytes);
    for (int64_t n = 0; n < items; ++n) {
      std::fill(scratch.begin(), scratch.end(), std::byte{0xFF});  // NaN, as numbers
      kernels::run(params, phase, order == Order::kForwards ? n : items - 1 - n,
                   {scratch.data(), workspace.data()});
    }
  }
}

}  // namespace headwise::testing
