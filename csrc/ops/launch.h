// Runs a kernel's plan on torch's threads.
#pragma once

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "csrc/kernels/plan.h"
#include "csrc/ops/memory.h"

namespace headwise::ops {

inline at::Tensor empty_bytes(size_t bytes) {
  return empty_kept({static_cast<int64_t>(bytes)}, {1}, at::kByte);
}

/// How many threads share the items of a phase.
inline int64_t workers_of(const kernels::Phase& phase) {
  constexpr int64_t kCostPerThread = 1 << 15;  // multiplications worth waking a thread for
  const int64_t worth = phase.items * phase.item_cost / kCostPerThread;
  return std::clamp<int64_t>(std::min<int64_t>(at::get_num_threads(), worth), 1,
                             std::max<int64_t>(1, phase.items));
}

/// How many items a thread takes at a time: small ones in lots, yet enough lots that all threads
/// end together.
inline int64_t items_at_once(const kernels::Phase& phase, int64_t workers) {
  constexpr int64_t kLotsPerThread = 16;
  if (workers == 1) return std::max<int64_t>(1, phase.items);
  return std::max<int64_t>(1, phase.items / (workers * kLotsPerThread));
}

template <typename Params>
void run_on_threads(const Params& params) {
  const kernels::Plan work = plan(params);  // of whichever kernel has such params
  const at::Tensor workspace = empty_bytes(work.workspace_bytes);
  for (size_t phase = 0; phase < work.phases.size(); ++phase) {
    const int64_t workers = workers_of(work.phases[phase]);
    // Whoever is free takes the next items: they differ in cost, and so do the cores' speeds.
    const int64_t count = work.phases[phase].items,
                  share = items_at_once(work.phases[phase], workers);
    std::atomic<int64_t> next = 0;
    at::parallel_for(
        0, workers, 1, [&, bytes = work.phases[phase].scratch_bytes](int64_t begin, int64_t end) {
          const at::Tensor scratch = empty_bytes(bytes);
          const kernels::Memory memory{scratch.mutable_data_ptr(), workspace.mutable_data_ptr()};
          // One worker a thread; a thread that was given several ranges runs them as one.
          static_cast<void>(begin);
          static_cast<void>(end);
          for (int64_t item = next.fetch_add(share); item < count; item = next.fetch_add(share)) {
            run(params, phase, {item, std::min(item + share, count)}, memory);
          }
        });
  }
}

}  // namespace headwise::ops
