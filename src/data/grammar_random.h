// SplitMix64: the only source of chance in the embedded corpus, the same on every machine.
#pragma once

#include <cstdint>
#include <string_view>

#include "src/data/splitmix64.h"

namespace headwise::data::grammar {

class Random {
 public:
  explicit Random(uint64_t seed) : numbers_(seed) {}
  uint64_t next() { return numbers_.next(); }
  /// A number in [0, n), n below 2^32.
  uint64_t below(uint64_t n) { return ((next() >> 32) * n) >> 32; }
  /// A number in [first, last].
  int64_t between(int64_t first, int64_t last) {
    return first + static_cast<int64_t>(below(static_cast<uint64_t>(last - first + 1)));
  }
  bool percent(uint64_t chance) { return below(100) < chance; }
  template <typename Container>
  const auto& pick(const Container& from) {
    return from[below(from.size())];
  }

 private:
  SplitMix64 numbers_;
};

/// FNV-1a, then mixed: what decides the split of a text and which names are held out.
inline uint64_t text_hash(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return mix64(hash);
}

}  // namespace headwise::data::grammar
