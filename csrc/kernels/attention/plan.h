// What the attention kernels offer.
#pragma once

#include "csrc/kernels/attention/params.h"
#include "csrc/kernels/plan.h"

namespace headwise::kernels {

// T is float, double, BFloat16 or Half.
template <typename T>
Plan plan(const ForwardParams<T>& params);
template <typename T>
void run(const ForwardParams<T>& params, size_t phase, const ItemRange& items,
         const Memory& memory);

template <typename T>
Plan plan(const BackwardParams<T>& params);
template <typename T>
void run(const BackwardParams<T>& params, size_t phase, const ItemRange& items,
         const Memory& memory);

template <typename T>
Plan plan(const WeightsParams<T>& params);
template <typename T>
void run(const WeightsParams<T>& params, size_t phase, const ItemRange& items,
         const Memory& memory);

template <typename T>
Plan plan(const StatisticsParams<T>& params);
template <typename T>
void run(const StatisticsParams<T>& params, size_t phase, const ItemRange& items,
         const Memory& memory);

}  // namespace headwise::kernels
