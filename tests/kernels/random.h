// Random numbers that depend on where they stand and on nothing else: the same sequence has the
// same numbers in every layout, padded and packed.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>

namespace headwise::testing {

/// splitmix64, started from several integers.
class Random {
 public:
  using result_type = uint64_t;  // NOLINT(readability-identifier-naming): the standard's name

  Random(std::initializer_list<int64_t> seeds) {
    for (const int64_t seed : seeds) state_ = (*this)() ^ static_cast<uint64_t>(seed);
  }
  static constexpr uint64_t min() { return 0; }
  static constexpr uint64_t max() { return ~uint64_t{0}; }

  uint64_t operator()() {
    uint64_t z = state_ += 0x9E3779B97F4A7C15;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
    z = (z ^ z >> 27) * 0x94D049BB133111EB;
    return z ^ z >> 31;
  }
  /// In 0 … n - 1.
  int64_t below(int64_t n) { return static_cast<int64_t>((*this)() % static_cast<uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  /// In (0, 1].
  double uniform() { return (static_cast<double>((*this)() >> 11) + 1.0) * 0x1p-53; }
  double normal() {
    const double radius = std::sqrt(-2.0 * std::log(uniform()));
    return radius * std::cos(6.283185307179586 * uniform());
  }

 private:
  uint64_t state_ = 0;
};

}  // namespace headwise::testing
