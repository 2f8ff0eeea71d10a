// How the work is cut: tiles of query rows and keys, blocks that one item owns. The grid is fixed
// from the start of each sequence, so that results depend neither on padding nor on threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "csrc/kernels/attention/params.h"
#include "csrc/kernels/cpu/round.h"

namespace headwise::kernels::cpu {

// A tile of scores lies in memory as (key, query row): softmax then runs down the rows of a vector,
// one query row a lane, and needs no sum across lanes.
constexpr int64_t kTileRows = 64;   // query rows of a tile: whole vectors, and one panel of AVX-512
constexpr int64_t kTileKeys = 128;  // keys of a tile; a multiple of 32, as dropout bits are

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

  // Most tiles lie in one head and need no division.
  int64_t head(int64_t r) const {
    const int64_t n = first + r;
    return n < rows_per_head ? first_head : first_head + n / rows_per_head;
  }
  int64_t row(int64_t r) const {
    const int64_t n = first + r;
    return first_row + (n < rows_per_head ? n : n % rows_per_head);
  }
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

/// What one tile of query rows sees of one tile of keys, counted from the tile's first key. Between
/// the first and the last visible key of a row an element mask may hide.
class TileView {
 public:
  /// All rows see the same keys.
  void set_all(int64_t rows, const KeyRange& range) {
    rows_ = rows;
    all_ = range;
    even_ = true;
  }
  /// Row after row: start() and then set_row() for each.
  void start(int64_t rows) {
    rows_ = rows;
    all_ = {};
    even_ = false;
  }
  void set_row(int64_t r, const KeyRange& range) {
    begin_[r] = static_cast<int32_t>(range.begin);
    end_[r] = static_cast<int32_t>(range.end);
    if (range.begin == range.end) return;
    if (empty()) {
      all_ = range;
    } else {
      all_ = {std::min(all_.begin, range.begin), std::max(all_.end, range.end)};
    }
  }

  int64_t rows() const { return rows_; }
  bool even() const { return even_; }
  bool empty() const { return all_.begin == all_.end; }
  const KeyRange& all() const { return all_; }
  KeyRange row(int64_t r) const { return even_ ? all_ : KeyRange{begin_[r], end_[r]}; }

  /// Keys that any of some rows sees.
  KeyRange of_rows(int64_t begin, int64_t end) const {
    if (even_) return all_;
    int32_t first = INT32_MAX, last = 0;
    for (int64_t r = begin; r < end; ++r) {
      const bool sees = begin_[r] < end_[r];
      first = sees ? std::min(first, begin_[r]) : first;
      last = sees ? std::max(last, end_[r]) : last;
    }
    return first < last ? KeyRange{first, last} : KeyRange{};
  }
  /// Rows that see some of the keys begin … end - 1, and all rows between them.
  RowRange rows_that_see(int64_t begin, int64_t end) const {
    int64_t first = 0, last = rows_;
    if (even_) return {first, last};
    const auto sees = [&](int64_t r) { return begin_[r] < end && end_[r] > begin; };
    while (first < last && !sees(first)) ++first;
    while (last > first && !sees(last - 1)) --last;
    return {first, last};
  }

 private:
  int64_t rows_ = 0;
  KeyRange all_;
  bool even_ = false;
  // Left unset: a view is made for every small tile.
  int32_t begin_[kTileRows], end_[kTileRows];
};

}  // namespace headwise::kernels::cpu
