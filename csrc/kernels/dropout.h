// Dropout bits: a pure function of (seed, offset, matrix, row, column), so that every form, tiling,
// thread count and device drops the same numbers. Of attention weights the matrix is b * H + h; ops
// on rows of tokens have one matrix, 0. Written once, for host and device.
#pragma once

#include <cstdint>

#include "csrc/kernels/host_device.h"

namespace headwise::kernels {

struct Philox4 {
  uint32_t word[4];
};

/// Philox4x32 with 7 rounds (Salmon et al. 2011).
HEADWISE_HOST_DEVICE inline Philox4 philox4x32_7(Philox4 counter, uint64_t key) {
  uint32_t key0 = static_cast<uint32_t>(key), key1 = static_cast<uint32_t>(key >> 32);
  Philox4 x = counter;
  for (int round = 0; round < 7; ++round) {
    const uint64_t product0 = uint64_t{0xD2511F53} * x.word[0];
    const uint64_t product1 = uint64_t{0xCD9E8D57} * x.word[2];
    x = {{static_cast<uint32_t>(product1 >> 32) ^ x.word[1] ^ key0, static_cast<uint32_t>(product1),
          static_cast<uint32_t>(product0 >> 32) ^ x.word[3] ^ key1,
          static_cast<uint32_t>(product0)}};
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return x;
}

struct Dropout {
  uint64_t seed = 0;
  uint32_t offset = 0;
  uint32_t threshold = 0;  // a number whose 16 random bits are below it is dropped; 0 = no dropout
};

/// Threshold for a probability in [0, 1), in steps of 1/65536.
HEADWISE_HOST_DEVICE inline uint32_t dropout_threshold(double probability) {
  const double scaled = probability * 65536.0 + 0.5;
  return scaled >= 65535.0 ? 65535u : static_cast<uint32_t>(scaled);
}

/// Factor of a kept number; exact for the threshold, so that dropout is unbiased.
HEADWISE_HOST_DEVICE inline double dropout_scale(const Dropout& dropout) {
  return 65536.0 / (65536.0 - dropout.threshold);
}

/// Random bits of one row for the eight columns 32 * block + 8 * w + 2 * lane + {0, 1}, w = 0 … 3:
/// word w holds the even column in its low half and the odd one in its high half. These are the
/// columns one lane of an mma fragment owns. lane = 0 … 3.
HEADWISE_HOST_DEVICE inline Philox4 dropout_bits(const Dropout& dropout, int64_t matrix,
                                                 int64_t row, int64_t block, int lane) {
  const Philox4 counter{{static_cast<uint32_t>(4 * block + lane), static_cast<uint32_t>(row),
                         static_cast<uint32_t>(matrix), dropout.offset}};
  return philox4x32_7(counter, dropout.seed);
}

/// Whether number (row, column) of a matrix is kept: the definition, one number at a time.
HEADWISE_HOST_DEVICE inline bool dropout_keeps(const Dropout& dropout, int64_t matrix, int64_t row,
                                               int64_t column) {
  const Philox4 bits =
      dropout_bits(dropout, matrix, row, column / 32, static_cast<int>(column % 8 / 2));
  const uint32_t word = bits.word[column % 32 / 8];
  const uint32_t half = column % 2 == 0 ? word & 0xFFFF : word >> 16;
  return half >= dropout.threshold;
}

}  // namespace headwise::kernels
