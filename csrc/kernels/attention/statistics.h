// What attention_statistics measures, column by column. All are sums over the rows of one sequence
// and head that see a key, so that adding sequences up and dividing by `rows` gives means; only
// top_column_index is none. Defined in the docstring of headwise.attention_statistics.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace headwise::kernels {

constexpr int64_t kLargestOffset = 8;                 // offsets -8 … 8 from the diagonal
constexpr int64_t kOffsets = 2 * kLargestOffset + 1;  // how many
constexpr int64_t kStatisticsVersions = 2;            // weights, value-norm-weighted weights

/// Columns of the rows, whatever their weights.
enum RowColumn : int64_t {
  kRows,            // that see a key
  kRowsWithChoice,  // that see two or more
  kKeys,            // that some row sees
  kChance,          // 1 / number of keys the row sees
  kRowsAt,          // kOffsets columns: rows that see the key at this offset
  kRowColumns = kRowsAt + kOffsets
};

/// Columns of either version, counted from its first.
enum WeightColumn : int64_t {
  kEntropy,            // in nats
  kNormalisedEntropy,  // entropy / log(number of keys), over rows with a choice
  kEffectiveKeys,      // exp(entropy)
  kLargest,
  kDistance,      // mean |key - diagonal|
  kMisalignment,  // |top key / keys - row / rows|
  kFirst,
  kLast,
  kCoverage,   // sum over the keys of min(1, what the key receives)
  kTopColumn,  // what the key receives that receives the most
  kTopColumnIndex,
  kMass,                        // kOffsets columns
  kTopKeys = kMass + kOffsets,  // kOffsets columns: rows whose largest weight is at this offset
  kWeightColumns = kTopKeys + kOffsets
};

constexpr int64_t kStatisticsColumns = kRowColumns + kStatisticsVersions * kWeightColumns;

constexpr int64_t first_column(int64_t version) { return kRowColumns + version * kWeightColumns; }

/// Names of all columns, in order.
inline std::vector<std::string> statistics_names() {
  std::vector<std::string> names{"rows", "rows_with_choice", "keys", "chance"};
  const auto add_offsets = [&names](const std::string& name) {
    for (int64_t offset = -kLargestOffset; offset <= kLargestOffset; ++offset) {
      names.push_back(name + "[" + std::to_string(offset) + "]");
    }
  };
  add_offsets("rows_at");
  for (const std::string prefix : {"", "norm_"}) {
    for (const char* name :
         {"entropy", "normalised_entropy", "effective_keys", "largest", "distance", "misalignment",
          "first", "last", "coverage", "top_column", "top_column_index"}) {
      names.push_back(prefix + name);
    }
    add_offsets(prefix + "mass");
    add_offsets(prefix + "top_key");
  }
  return names;
}

}  // namespace headwise::kernels
