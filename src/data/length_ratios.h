// How the lengths of two sides go together, and where they stop doing so.
#pragma once

#include <cstdint>
#include <vector>

namespace headwise::data {

/// (target characters + 1) / (source characters + 1) over the pairs of a corpus.
struct LengthRatios {
  double least = 0, percent1 = 0, median = 0, percent99 = 0, greatest = 0;
};

/// Quantiles by nearest rank; all 0 without pairs.
LengthRatios length_ratios(const std::vector<int64_t>& source, const std::vector<int64_t>& target);

/// A pair whose ratio is more than 4 times above or below the median and whose longer side has at
/// least 20 characters.
bool is_extreme(int64_t source, int64_t target, const LengthRatios& ratios);

/// For two files of different length: the 1-based line of the longer one where one block of surplus
/// lines most probably begins. It is the place at which taking out a block of the missing number of
/// lines lets the line lengths of both files agree best (least sum of |log ratio - log mean
/// ratio|); among equals the last. shorter.size() + 1 means that the shorter file just ends early.
int64_t surplus_line(const std::vector<int64_t>& longer, const std::vector<int64_t>& shorter);

}  // namespace headwise::data
