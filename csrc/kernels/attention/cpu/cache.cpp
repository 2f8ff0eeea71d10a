#include "csrc/kernels/attention/cache.h"

#include <cstring>

namespace headwise::kernels {

namespace {

std::byte* row_of(const RawView& view, size_t element_size, int64_t b, int64_t h, int64_t i) {
  const int64_t index = b * view.batch + h * view.head + i * view.row;
  return view.data + index * static_cast<int64_t>(element_size);
}

}  // namespace

void append_rows(const CacheAppendParams& params, int64_t b) {
  const size_t size = params.element_size;
  const bool contiguous = params.source.column == 1 && params.cache.column == 1;
  for (int64_t h = 0; h < params.heads; ++h) {
    for (int64_t t = 0; t < params.rows; ++t) {
      const std::byte* from = row_of(params.source, size, b, h, t);
      std::byte* to = row_of(params.cache, size, b, h, params.lengths[b] + t);
      if (contiguous) {
        std::memcpy(to, from, size * params.width);
        continue;
      }
      for (int64_t d = 0; d < params.width; ++d) {
        const int64_t bytes = static_cast<int64_t>(size);
        std::memcpy(to + d * params.cache.column * bytes, from + d * params.source.column * bytes,
                    size);
      }
    }
  }
}

}  // namespace headwise::kernels
