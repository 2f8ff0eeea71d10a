// What rotary positions see. Glossary: N rows, H heads of a row, D head width, P rows of the table.
#pragma once

#include <cstdint>

#include "csrc/kernels/plan.h"

namespace headwise::kernels {

/// Turns channels i and i + D / 2 of every head of row n by the angle whose cosine and sine stand
/// in row n mod P of the table. C is float or double.
template <typename C>
struct RotaryParams {
  int64_t rows = 0, heads = 0, width = 0;  // N, H, D (even)
  int64_t positions = 0;                   // P
  const C* cosine = nullptr;               // (P, D / 2)
  const C* sine = nullptr;                 // (P, D / 2)
  bool inverse = false;                    // turn back instead: the gradient
  const C* x = nullptr;                    // (N, H, D)
  C* y = nullptr;                          // (N, H, D)
};

template <typename C>
Plan plan(const RotaryParams<C>& params);
template <typename C>
void run(const RotaryParams<C>& params, size_t phase, const ItemRange& items, const Memory& memory);

}  // namespace headwise::kernels
