// Memory for results and scratch that is kept when freed: handing large blocks back to the system
// and taking them anew, page fault by page fault, would cost a short call as much as its work.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

namespace headwise::ops {

/// Uninitialised CPU tensor. Blocks of 64 KiB and more come from those that earlier tensors left,
/// up to 64 MiB of them (environment variable HEADWISE_KEPT_MEMORY, in MiB; 0 = keep nothing).
/// torch's memory profiler sees them as if they were allocated and freed.
at::Tensor empty_kept(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);

/// Bytes that lie idle now, waiting to be used again.
size_t kept_bytes();

}  // namespace headwise::ops
