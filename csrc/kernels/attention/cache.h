// Appending to a key/value cache: a copy of rows, whatever their type.
#pragma once

#include <cstddef>
#include <cstdint>

namespace headwise::kernels {

/// A (B, head, row, column) tensor of elements of any type; strides in elements.
struct RawView {
  std::byte* data = nullptr;
  int64_t batch = 0, head = 0, row = 0, column = 0;
};

struct CacheAppendParams {
  RawView source;                    // (B, G, T, D)
  RawView cache;                     // (rows, G, capacity, D), rows >= B
  const int64_t* lengths = nullptr;  // (B): row t of sequence b goes to position lengths[b] + t
  int64_t heads = 0, rows = 0, width = 0;  // G, T, D
  size_t element_size = 0;                 // bytes
};

/// Copies the rows of sequence b.
void append_rows(const CacheAppendParams& params, int64_t b);

}  // namespace headwise::kernels
