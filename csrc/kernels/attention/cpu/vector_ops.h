// The inner loops of the CPU kernels, for the best instruction set of the machine (Highway chooses
// at run time). T is float or double; rows are contiguous. Each result depends only on its own
// row's numbers, not on how many rows are handed over at once.
#pragma once

#include <cstdint>

namespace headwise::kernels::cpu {

/// out[j] = x · rows[j] for j < count; x and rows[j] have `width` entries.
template <typename T>
void dot_rows(const T* x, const T* const* rows, int64_t count, int64_t width, T* out);

/// out[d] = sum over j of weights[j] * rows[j][d], added in the order of j.
template <typename T>
void sum_rows(const T* weights, const T* const* rows, int64_t count, int64_t width, T* out);

/// Row index[j] of `rows` (stride apart) += weights[j] * x, for j < count.
template <typename T>
void add_outer(const T* weights, const T* x, int64_t count, int64_t width, const int64_t* index,
               T* rows, int64_t stride);

/// x[j] = exp(x[j] - shift); returns the sum. NaN stays NaN.
template <typename T>
T exp_minus(T* x, int64_t count, T shift);

/// Name of the instruction set in use ("AVX2", "AVX3", …).
const char* instruction_set();

}  // namespace headwise::kernels::cpu
