// Appending to a cache writes exactly the rows it should.
#include "csrc/kernels/attention/cache.h"

#include <gtest/gtest.h>

#include <vector>

namespace headwise::kernels {
namespace {

TEST(CacheAppend, WritesItsRowsAndNoOthers) {
  constexpr int64_t kBatch = 2, kHeads = 3, kTokens = 2, kCapacity = 5, kWidth = 4;
  for (const int64_t column : {1, 2}) {  // stride of the source
    std::vector<float> source(kBatch * kHeads * kTokens * kWidth * column);
    for (size_t n = 0; n < source.size(); ++n) source[n] = 1.0f + n;
    std::vector<float> cache((kBatch + 1) * kHeads * kCapacity * kWidth, 0.0f);
    const int64_t lengths[kBatch] = {3, 0};
    CacheAppendParams params;
    const int64_t row = kWidth * column;
    params.source = {reinterpret_cast<std::byte*>(source.data()), kHeads * kTokens * row,
                     kTokens * row, row, column};
    params.cache = {reinterpret_cast<std::byte*>(cache.data()), kHeads * kCapacity * kWidth,
                    kCapacity * kWidth, kWidth, 1};
    params.lengths = lengths;
    params.heads = kHeads;
    params.rows = kTokens;
    params.width = kWidth;
    params.element_size = sizeof(float);
    for (int64_t b = 0; b < kBatch; ++b) append_rows(params, b);
    for (int64_t b = 0; b < kBatch + 1; ++b) {
      for (int64_t h = 0; h < kHeads; ++h) {
        for (int64_t t = 0; t < kCapacity; ++t) {
          for (int64_t d = 0; d < kWidth; ++d) {
            const int64_t s = b < kBatch ? t - lengths[b] : -1;
            const float want = s < 0 || s >= kTokens
                                   ? 0.0f
                                   : source[((b * kHeads + h) * kTokens + s) * row + d * column];
            ASSERT_EQ(cache[((b * kHeads + h) * kCapacity + t) * kWidth + d], want);
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace headwise::kernels
