// Sinusoidal position encoding (Vaswani et al. 2017, section 3.5).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace headwise::model {

/// (length, width) table; column 2i holds sin, 2i + 1 cos of position / 10000^(2i / width).
at::Tensor sinusoidal_table(int64_t length, int64_t width, const at::TensorOptions& options);

}  // namespace headwise::model
