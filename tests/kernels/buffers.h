// Tensors of a test with their memory. Inputs end where their memory ends, so that the sanitizer
// sees a read past the last number, and gaps hold NaN. Results stand between guards.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "csrc/kernels/attention/params.h"

namespace headwise::testing {

/// x as the number type of a tensor, rounded once.
template <typename T>
T convert(double x) {
  if constexpr (std::is_integral_v<T>) {
    return x != x ? T{1} : static_cast<T>(x);
  } else {
    return kernels::from_compute<T>(static_cast<kernels::Compute<T>>(x));
  }
}

template <typename T>
bool same_bits_of(const T* a, const T* b, int64_t count) {
  // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison): the bits are what is asked for
  return std::memcmp(a, b, count * sizeof(T)) == 0;
}

enum class Layout {  // of a (batch, head, row, column) tensor in memory
  kDense,            // heads first, no gaps
  kHeadsFirst,       // gaps after each row
  kRowsFirst,        // likewise
  kStridedColumns,   // rows first, every second number
  kColumnsFirst,     // each matrix transposed
  kExpanded          // one number for all, strides 0
};

struct Sizes {
  int64_t batch = 1, head = 1, row = 1, column = 1;
};

template <typename T>
struct Buffer {
  std::vector<T> memory;
  kernels::View<T> view;

  Buffer() = default;
  /// All numbers NaN.
  Buffer(const Sizes& n, Layout layout) {
    const int64_t gap = layout == Layout::kDense ? 0 : 3;
    const int64_t step = layout == Layout::kStridedColumns ? 2 : 1, line = n.column * step + gap;
    switch (layout) {
      case Layout::kDense:
      case Layout::kHeadsFirst:
        view = {nullptr, n.head * n.row * line, n.row * line, line, step};
        break;
      case Layout::kRowsFirst:
      case Layout::kStridedColumns:
        view = {nullptr, n.head * n.row * line, line, n.head * line, step};
        break;
      case Layout::kColumnsFirst:
        view = {nullptr, n.head * n.column * (n.row + gap), n.column * (n.row + gap), 1,
                n.row + gap};
        break;
      case Layout::kExpanded:
        break;
    }
    const bool empty = n.batch * n.head * n.row * n.column == 0;
    const int64_t last = (n.batch - 1) * view.batch + (n.head - 1) * view.head +
                         (n.row - 1) * view.row + (n.column - 1) * view.column;
    memory =
        std::vector<T>(empty ? 0 : last + 1, convert<T>(std::numeric_limits<double>::quiet_NaN()));
    view.data = memory.data();
  }
};

template <typename T>
kernels::View<const T> constant(const kernels::View<T>& v) {
  return {v.data, v.batch, v.head, v.row, v.column};
}

/// A result: its own numbers, and guards before, after and (with a gap) between its rows.
template <typename T>
class Result {
 public:
  kernels::View<T> view;

  Result() = default;
  /// Rows `begin` … `end` - 1 of each head are its own.
  Result(const Sizes& n, int64_t gap, int64_t begin, int64_t end) {
    const int64_t line = n.column + gap;
    memory_.resize(kBefore + n.batch * n.row * n.head * line + kAfter);
    own_.assign(memory_.size(), 0);
    view = {memory_.data() + kBefore, n.row * n.head * line, line, n.head * line, 1};
    for (int64_t b = 0; b < n.batch; ++b) {
      for (int64_t h = 0; h < n.head; ++h) {
        for (int64_t i = begin; i < end; ++i) {
          std::fill_n(own_.begin() + (view.at(b, h, i) - memory_.data()), n.column, uint8_t{1});
        }
      }
    }
  }

  /// Fills the result with a number (NaN: it must be written) and the guards with another.
  void clear(double number) {
    for (size_t n = 0; n < memory_.size(); ++n) {
      memory_[n] = own_[n] != 0 ? convert<T>(number) : convert<T>(kGuard);
    }
  }
  bool guards_hold() const {
    const T guard = convert<T>(kGuard);
    for (size_t n = 0; n < memory_.size(); ++n) {
      if (own_[n] == 0 && !same_bits_of(&memory_[n], &guard, 1)) return false;
    }
    return true;
  }
  /// Of a result of the same sizes.
  bool same_bits(const Result& other) const {
    const int64_t count = static_cast<int64_t>(memory_.size());
    return memory_.size() == other.memory_.size() &&
           (count == 0 || same_bits_of(memory_.data(), other.memory_.data(), count));
  }
  /// Numbers from the first own one to the end of the memory, and whether the nth is its own.
  size_t span() const { return memory_.size() - kBefore; }
  bool owns(size_t n) const { return own_[kBefore + n] != 0; }

 private:
  static constexpr int64_t kBefore = 7, kAfter = 19;  // odd, so that rows are not aligned
  static constexpr double kGuard = 77.0;

  std::vector<T> memory_;
  std::vector<uint8_t> own_;
};

}  // namespace headwise::testing
