// What linear layers that share their input see, multiplied as bfloat16. Glossary: N rows, E width
// of the input, J width of a layer's output.
#pragma once

#include <cstdint>

#include "csrc/kernels/plan.h"

namespace headwise::kernels {

/// E and every J must be a multiple of this.
constexpr int64_t kLinearWidthMultiple = 32;
constexpr int64_t kMostLinearParts = 3;  // layers that share an input: queries, keys and values

/// One layer: y = x weight^T + bias.
struct LinearPart {
  int64_t width = 0;              // J
  const float* weight = nullptr;  // (J, E) contiguous
  const float* bias = nullptr;    // (J) or null
  float* y = nullptr;             // (N, J) contiguous
};

/// Products of factors rounded to bfloat16, summed in float.
struct LinearParams {
  bool instruction = false;     // multiply by AVX512_BF16's instruction, which must be there
  int64_t rows = 0, width = 0;  // N, E
  const float* x = nullptr;     // (N, E) contiguous
  int64_t count = 0;            // of parts
  LinearPart parts[kMostLinearParts];
};

struct LinearGradientPart {
  int64_t width = 0;                  // J
  const float* weight = nullptr;      // (J, E) contiguous; null without x_gradient
  const float* y_gradient = nullptr;  // (N, J) contiguous
  float* weight_gradient = nullptr;   // (J, E) written
  float* bias_gradient = nullptr;     // (J) written, summed in float without rounding; or null
};

struct LinearGradientParams {
  bool instruction = false;
  int64_t rows = 0, width = 0;
  const float* x = nullptr;     // (N, E) contiguous
  float* x_gradient = nullptr;  // (N, E) written: the sum over all parts; or null
  int64_t count = 0;
  LinearGradientPart parts[kMostLinearParts];
};

Plan plan(const LinearParams& params);
void run(const LinearParams& params, size_t phase, const ItemRange& items, const Memory& memory);

Plan plan(const LinearGradientParams& params);
void run(const LinearGradientParams& params, size_t phase, const ItemRange& items,
         const Memory& memory);

}  // namespace headwise::kernels
