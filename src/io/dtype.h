// Names and sizes of the number formats of a safetensors file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "src/io/safetensors.h"

namespace headwise::io {

std::string_view dtype_name(Dtype dtype);  // "F32"
std::optional<Dtype> dtype_from_name(std::string_view name);

/// Bytes of a tensor of that shape; nothing when a size is negative or the product overflows.
std::optional<size_t> bytes_of(Dtype dtype, const std::vector<int64_t>& shape);

}  // namespace headwise::io
