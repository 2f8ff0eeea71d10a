// Which pairs training leaves out; one rule for the trainer and for `headwise check`.
#pragma once

#include <algorithm>
#include <cstdint>

#include "src/data/batch.h"

namespace headwise::data {

struct LengthLimits {
  int64_t max_length = 256;     // pieces of one side, end token included
  double max_length_ratio = 0;  // pieces of the longer side over the shorter; 0 = any
};

enum class Drop { kNo, kEmpty, kTooLong, kLengthRatio };

struct DropCounts {
  int64_t empty = 0;         // a side is blank or normalises to nothing
  int64_t too_long = 0;      // a side exceeds max_length
  int64_t length_ratio = 0;  // the sides differ by more than max_length_ratio
  int64_t total() const { return empty + too_long + length_ratio; }

  void count(Drop reason) {
    if (reason == Drop::kEmpty) ++empty;
    if (reason == Drop::kTooLong) ++too_long;
    if (reason == Drop::kLengthRatio) ++length_ratio;
  }
};

/// The first reason that holds. Ids are without bos and eos.
inline Drop drop_reason(const Ids& source, const Ids& target, const LengthLimits& limits) {
  const auto [shorter, longer] = std::minmax({source.size(), target.size()});
  if (shorter == 0) return Drop::kEmpty;
  if (static_cast<int64_t>(longer) + 1 > limits.max_length) return Drop::kTooLong;
  const double ratio = static_cast<double>(longer) / static_cast<double>(shorter);
  if (limits.max_length_ratio > 0 && ratio > limits.max_length_ratio) return Drop::kLengthRatio;
  return Drop::kNo;
}

}  // namespace headwise::data
