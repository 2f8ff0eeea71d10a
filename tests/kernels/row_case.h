// Rows of tokens as kernels take them: a stride of whole vectors, zeros past the width.
#pragma once

#include <cstdint>
#include <vector>

#include "csrc/kernels/dropout.h"
#include "tests/kernels/random.h"

namespace headwise::testing {

/// (rows, width) numbers, `stride` apart, zeros past the width.
template <typename C>
std::vector<C> random_rows(Random& random, int64_t rows, int64_t width, int64_t stride) {
  std::vector<C> numbers(rows * stride);
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t i = 0; i < width; ++i) numbers[n * stride + i] = C(random.normal());
  }
  return numbers;
}

/// What stands within the width, row after row.
template <typename C>
std::vector<C> within_width(const std::vector<C>& rows, int64_t width, int64_t stride) {
  std::vector<C> numbers;
  for (size_t at = 0; at + width <= rows.size(); at += stride) {
    numbers.insert(numbers.end(), rows.begin() + at, rows.begin() + at + width);
  }
  return numbers;
}

/// Factor of number (row, column): dropout's definition, one number at a time.
inline long double kept_factor(const kernels::Dropout& dropout, int64_t row, int64_t column) {
  return kernels::dropout_keeps(dropout, 0, row, column) ? kernels::dropout_scale(dropout) : 0.0;
}

inline kernels::Dropout some_dropout(double probability) {
  return {0x123456789ABCDEF0, 7, kernels::dropout_threshold(probability)};
}

}  // namespace headwise::testing
