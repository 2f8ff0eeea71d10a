// What an item keeps in memory that measures the weights of one sequence and head.
#pragma once

#include <algorithm>
#include <cmath>

#include "csrc/kernels/attention/cpu/tiles.h"
#include "csrc/kernels/attention/statistics.h"
#include "csrc/kernels/cpu/arena.h"

namespace headwise::kernels::cpu {

// Rows for which a tile of keys is packed once.
constexpr int64_t kStatisticsRows = 5 * kTileRows;

/// Keys that the rows of a tile see, counted from the tile's first key; between them an element
/// mask may hide.
struct SeenByRows {
  int64_t rows = 0;
  KeyRange row[kTileRows];
  KeyRange all;

  bool empty() const { return all.begin == all.end; }
  KeyRange of_rows(int64_t begin, int64_t end) const {
    KeyRange range;
    for (int64_t r = begin; r < end; ++r) merge(row[r], range);
    return range;
  }
  static void merge(const KeyRange& from, KeyRange& to) {
    if (from.begin == from.end) return;
    to = to.begin == to.end ? from
                            : KeyRange{std::min(to.begin, from.begin), std::max(to.end, from.end)};
  }
};

/// What shares are shares of.
struct Whole {
  double sum, log;
};

/// What is to be known of a row before its shares can be added up. The log-sum-exp makes the
/// weights 1 in sum but for its rounding, which is divided away.
struct RowSums {
  int64_t keys;                      // that it sees
  Whole whole[kStatisticsVersions];  // of the weights; of the weights times value norms

  /// When all keys have been met.
  void finish() {
    if (whole[0].sum != 0) whole[1].sum /= whole[0].sum;
    for (Whole& each : whole) {
      if (each.sum == 0) each.sum = 1;  // of nothing but zeros
      each.log = std::log(each.sum);
    }
  }
};

/// What one row has gathered from the tiles of keys so far.
template <typename C>
struct RowStatistics {
  double entropy, distance;
  C largest;
  int64_t top_key;  // -1: none yet
};

template <typename T>
struct StatisticsBuffers {
  using C = Compute<T>;

  const T** rows;  // of queries, keys or values
  C* queries;
  C* keys;                                     // transposed
  C* value;                                    // one
  C *logs, *weights, *elements;                // (kTileRows, kTileKeys); logs of the weights
  C* column;                                   // sums over the rows of a tile
  C *norms, *log_norms;                        // (T_k) of the values
  double* received[kStatisticsVersions];       // (T_k)
  uint8_t* seen;                               // (T_k), whether some row sees the key
  RowSums* sums;                               // of each row of the block
  RowStatistics<C>* row[kStatisticsVersions];  // likewise

  StatisticsBuffers(Arena& arena, const StatisticsParams<T>& p) {
    const int64_t width = padded<C>(p.width);
    const int64_t columns = divide_up(p.sequences.key_rows, kTileKeys) * kTileKeys;
    rows = arena.take<const T*>(std::max(kTileRows, kTileKeys));
    queries = arena.take<C>(kTileRows * width);
    keys = arena.take<C>(kTileKeys * width);
    value = arena.take<C>(padded<C>(p.value_width));
    logs = arena.take<C>(kTileRows * kTileKeys);
    weights = arena.take<C>(kTileRows * kTileKeys);
    const bool has_elements = p.mask.view.data != nullptr || p.bias.data != nullptr;
    elements = has_elements ? arena.take<C>(kTileRows * kTileKeys) : nullptr;
    column = arena.take<C>(kTileKeys);
    norms = arena.take<C>(columns);
    log_norms = arena.take<C>(columns);
    seen = arena.take<uint8_t>(columns);
    sums = arena.take<RowSums>(kStatisticsRows);
    for (int64_t version = 0; version < kStatisticsVersions; ++version) {
      received[version] = arena.take<double>(columns);
      row[version] = arena.take<RowStatistics<C>>(kStatisticsRows);
    }
  }
};

}  // namespace headwise::kernels::cpu
