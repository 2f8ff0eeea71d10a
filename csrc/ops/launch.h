// Runs a kernel's plan on torch's threads.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <cstddef>
#include <memory>

#include "csrc/kernels/attention/plan.h"

namespace headwise::ops {

template <typename Params>
void run_on_threads(const Params& params) {
  constexpr int64_t kCostPerThread = 1 << 15;  // multiplications worth waking a thread for
  const kernels::Plan plan = kernels::plan(params);
  for (size_t phase = 0; phase < plan.phases.size(); ++phase) {
    const auto [items, scratch_bytes, item_cost] = plan.phases[phase];
    const int64_t grain = std::max<int64_t>(1, kCostPerThread / std::max<int64_t>(1, item_cost));
    at::parallel_for(0, items, grain, [&, bytes = scratch_bytes](int64_t begin, int64_t end) {
      const auto scratch = std::make_unique_for_overwrite<std::byte[]>(bytes);
      for (int64_t item = begin; item < end; ++item) {
        kernels::run(params, phase, item, scratch.get());
      }
    });
  }
}

}  // namespace headwise::ops
