// How the work is cut: tiles of query rows and keys, blocks that one item owns. The grid is fixed
// from the start of each sequence, so that results depend neither on padding nor on threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "csrc/kernels/attention/params.h"

namespace headwise::kernels::cpu {

constexpr int64_t kTileRows = 48;   // query rows whose scores are held at once
constexpr int64_t kTileKeys = 128;  // keys packed at once; a multiple of 32, as dropout bits are

constexpr int64_t divide_up(int64_t n, int64_t by) { return (n + by - 1) / by; }

/// Widths are padded to whole vectors of any instruction set.
template <typename C>
constexpr int64_t padded(int64_t width) {
  constexpr int64_t kLanes = 64 / sizeof(C);
  return (width + kLanes - 1) / kLanes * kLanes;
}

/// Query rows begin … end - 1 of a sequence.
struct RowRange {
  int64_t begin = 0, end = 0;
};

/// Keys that any row of a range may see by position. Later rows see no earlier ends and no earlier
/// begins.
inline KeyRange visible_to_rows(const MaskRule& rule, RowRange rows, int64_t query_length,
                                int64_t key_length) {
  KeyRange all;
  for (int64_t i = rows.begin; i < std::min(rows.end, query_length); ++i) {
    const KeyRange range = visible_range(rule, i, query_length, key_length);
    if (range.begin == range.end) continue;
    if (all.begin == all.end) all = range;
    all.end = std::max(all.end, range.end);
    if (rule.left < 0 && !rule.causal && rule.right < 0) break;  // all rows see the same
  }
  return all;
}

/// Keys that every row of a range sees by position.
inline KeyRange visible_to_all(const MaskRule& rule, RowRange rows, int64_t query_length,
                               int64_t key_length) {
  if (rows.begin >= rows.end) return {};
  const KeyRange first = visible_range(rule, rows.begin, query_length, key_length);
  const KeyRange last = visible_range(rule, rows.end - 1, query_length, key_length);
  if (first.begin == first.end || last.begin == last.end) return {};
  const KeyRange all{std::max(first.begin, last.begin), std::min(first.end, last.end)};
  return all.begin < all.end ? all : KeyRange{};
}

/// Rows of a tile: those of all query heads of a group, head after head. Row r is number first + r
/// of (heads x rows_per_head).
struct TileRows {
  int64_t first_head = 0;     // of the group
  int64_t first_row = 0;      // of the block in its sequence
  int64_t rows_per_head = 1;  // of the block
  int64_t first = 0, count = 0;

  int64_t head(int64_t r) const { return first_head + (first + r) / rows_per_head; }
  int64_t row(int64_t r) const { return first_row + (first + r) % rows_per_head; }
};

/// A tile's place: rows against keys first_key … first_key + keys - 1 of sequence b.
struct TilePlace {
  int64_t b = 0;
  TileRows rows;
  int64_t first_key = 0, keys = 0;
};

/// Keys first … first + count - 1 of one key/value head.
struct KeyPlace {
  int64_t b = 0, group = 0, first = 0, count = 0;
};

/// What one tile of query rows sees of one tile of keys. Columns count from the tile's first key.
struct TileView {
  int64_t rows = 0;
  KeyRange row[kTileRows];  // visible columns of each row; between them an element mask may hide
  KeyRange all;             // of all rows together

  bool empty() const { return all.begin == all.end; }
  KeyRange of_rows(int64_t begin, int64_t end) const {
    KeyRange range;
    for (int64_t r = begin; r < end; ++r) merge(row[r], range);
    return range;
  }
  /// Rows that see some of the columns begin … end - 1, and all rows between them.
  RowRange rows_that_see(int64_t begin, int64_t end) const {
    RowRange range;
    for (int64_t r = 0; r < rows; ++r) {
      if (row[r].begin == row[r].end || row[r].begin >= end || row[r].end <= begin) continue;
      if (range.begin == range.end) range.begin = r;
      range.end = r + 1;
    }
    return range;
  }
  static void merge(const KeyRange& from, KeyRange& to) {
    if (from.begin == from.end) return;
    if (to.begin == to.end) {
      to = from;
    } else {
      to = {std::min(to.begin, from.begin), std::max(to.end, from.end)};
    }
  }
};

}  // namespace headwise::kernels::cpu
