// A tiny seeded generator whose numbers are the same on every machine and standard library.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace headwise::data {

/// SplitMix64's finaliser: a bijection that spreads every input bit over the whole word.
inline uint64_t mix64(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

/// The odd integer nearest 2^64 over the golden ratio: steps of it visit every word once.
inline constexpr uint64_t kGoldenGamma = 0x9E3779B97F4A7C15ULL;

/// A seed for the part (major, minor) of what `seed` decides, unlike that of any other part.
inline uint64_t part_seed(uint64_t seed, uint64_t major, uint64_t minor) {
  return mix64(mix64(seed * kGoldenGamma + major) * kGoldenGamma + minor);
}

/// SplitMix64 (Steele, Lea, Flood 2014): a 64-bit counter passed through a bijective mixer.
class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t next() { return mix64(state_ += kGoldenGamma); }

  /// Uniform in [0, n), n >= 1. Numbers of the last, incomplete stretch of n are drawn again.
  uint64_t below(uint64_t n) {
    const uint64_t incomplete = (UINT64_MAX % n + 1) % n;
    uint64_t number = next();
    while (number > UINT64_MAX - incomplete) number = next();
    return number % n;
  }

 private:
  uint64_t state_;
};

/// Fisher-Yates. std::shuffle gives another order with another standard library.
template <typename T>
void shuffle(std::vector<T>& values, SplitMix64& random) {
  for (size_t i = values.size(); i > 1; --i) {
    std::swap(values[i - 1], values[random.below(i)]);
  }
}

}  // namespace headwise::data
