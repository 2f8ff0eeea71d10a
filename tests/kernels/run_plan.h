// Runs a kernel's plan the way a caller would, on one thread, in memory of exactly the planned size
// between guards.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <new>
#include <numeric>
#include <vector>

#include "csrc/kernels/plan.h"
#include "tests/kernels/random.h"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

namespace headwise::testing {

enum class Order { kForwards, kBackwards, kShuffled };  // of the items of a phase

/// What scratch and workspace hold at the start: NaN in every number type, or something finite.
enum class Rubbish : uint8_t { kNaN = 0xFF, kZero = 0x00, kNumbers = 0x3C };

/// Memory as a kernel gets it: aligned, with guards before and behind.
class GuardedMemory {
 public:
  explicit GuardedMemory(size_t bytes)
      : bytes_(bytes),
        memory_(static_cast<std::byte*>(
            ::operator new (kGuard + bytes + kGuard, std::align_val_t{kAlignment}))) {
    std::fill_n(memory_.get(), kGuard, kMark);
    std::fill_n(memory_.get() + kGuard + bytes, kGuard, kMark);
    poison();
  }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory() { unpoison(); }

  std::byte* data() { return memory_.get() + kGuard; }
  void fill(Rubbish rubbish) { std::fill_n(data(), bytes_, std::byte{uint8_t(rubbish)}); }
  bool guards_hold() {
    unpoison();
    const auto holds = [](const std::byte* from) {
      return std::all_of(from, from + kGuard, [](std::byte x) { return x == kMark; });
    };
    const bool hold = holds(memory_.get()) && holds(data() + bytes_);
    poison();
    return hold;
  }

 private:
  static constexpr size_t kAlignment = 64, kGuard = 256;
  static constexpr std::byte kMark{0xA5};

  struct Free {
    void operator()(std::byte* memory) const {
      ::operator delete (memory, std::align_val_t{kAlignment});
    }
  };

  // The sanitizer sees reads of the guards too.
  void poison() {
#ifdef __SANITIZE_ADDRESS__
    ASAN_POISON_MEMORY_REGION(memory_.get(), kGuard);
    ASAN_POISON_MEMORY_REGION(data() + bytes_, kGuard);
#endif
  }
  void unpoison() {
#ifdef __SANITIZE_ADDRESS__
    ASAN_UNPOISON_MEMORY_REGION(memory_.get(), kGuard + bytes_ + kGuard);
#endif
  }

  size_t bytes_;
  std::unique_ptr<std::byte, Free> memory_;
};

// Each item by itself; or, forwards, in growing lots, as a thread that takes many at a time.
inline std::vector<kernels::ItemRange> lots_in_order(int64_t count, Order order) {
  std::vector<kernels::ItemRange> lots;
  for (int64_t begin = 0, size = 1; begin < count; begin += size++) {
    if (order != Order::kForwards) size = 1;
    size = std::min(size, count - begin);
    lots.push_back({begin, begin + size});
  }
  if (order == Order::kBackwards) std::reverse(lots.begin(), lots.end());
  if (order == Order::kShuffled) std::shuffle(lots.begin(), lots.end(), Random{count});
  return lots;
}

template <typename Params>
void run_plan(const Params& params, Order order = Order::kForwards,
              Rubbish rubbish = Rubbish::kNaN) {
  const kernels::Plan work = plan(params);  // of whichever kernel has such params
  GuardedMemory workspace(work.workspace_bytes);
  workspace.fill(rubbish);
  for (size_t phase = 0; phase < work.phases.size(); ++phase) {
    GuardedMemory scratch(work.phases[phase].scratch_bytes);
    scratch.fill(rubbish);
    int64_t refills = 1000;  // of many lots the first tell enough
    for (const kernels::ItemRange& lot : lots_in_order(work.phases[phase].items, order)) {
      if (refills-- > 0) scratch.fill(rubbish);
      run(params, phase, lot, {scratch.data(), workspace.data()});
    }
    ASSERT_TRUE(scratch.guards_hold()) << "scratch of phase " << phase;
    ASSERT_TRUE(workspace.guards_hold()) << "workspace in phase " << phase;
  }
}

}  // namespace headwise::testing
