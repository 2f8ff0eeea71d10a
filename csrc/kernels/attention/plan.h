// The seam between kernels and their caller. The caller owns threads and memory: it asks for a
// plan, then runs every item of a phase in any order on any threads, and the phases one after the
// other. Results do not depend on who runs which item.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "csrc/kernels/attention/params.h"

namespace headwise::kernels {

struct Phase {
  int64_t items = 0;
  size_t scratch_bytes = 0;  // for one item at a time, aligned as operator new aligns; any content
  int64_t item_cost = 0;     // about how many multiplications one item takes
};

struct Plan {
  const char* kernel = "";           // which kernel was chosen
  const char* instruction_set = "";  // what its inner loops run on
  std::vector<Phase> phases;
};

template <typename T>
Plan plan(const ForwardParams<T>& params);
template <typename T>
void run(const ForwardParams<T>& params, size_t phase, int64_t item, void* scratch);

template <typename T>
Plan plan(const BackwardParams<T>& params);
template <typename T>
void run(const BackwardParams<T>& params, size_t phase, int64_t item, void* scratch);

template <typename T>
Plan plan(const WeightsParams<T>& params);
template <typename T>
void run(const WeightsParams<T>& params, size_t phase, int64_t item, void* scratch);

}  // namespace headwise::kernels
