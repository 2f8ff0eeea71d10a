// Statistics of the attention weights, rebuilt from the log-sum-exp a tile at a time; dropout plays
// no part. Weights times value norms need their row's sum before they can be added up, so a row
// that does not fit one tile of keys is weighed twice.
#include <algorithm>
#include <cmath>
#include <limits>

#include "csrc/kernels/attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "csrc/kernels/attention/cpu/statistics.cpp"
#include <hwy/foreach_target.h>
// Highway's headers must follow foreach_target.h.
#include "csrc/kernels/attention/cpu/statistics-inl.h"
#include "csrc/kernels/cpu/instruction_set.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// Measures the weights of one sequence and head.
template <typename T>
class StatisticsItem {
  using C = Compute<T>;

 public:
  StatisticsItem(const StatisticsParams<T>& params, int64_t item, const Memory& memory)
      : in_(params),
        arena_(memory.scratch),
        buffers_(arena_, params),
        b_(item % params.sequences.count),
        h_(item / params.sequences.count),
        queries_(params.sequences.query(b_)),
        keys_(params.sequences.key(b_)),
        diagonal_(params.rule.align_end ? keys_.length - queries_.length : 0) {}

  void run() {
    measure_values();
    for (int64_t row = 0; row < queries_.length; row += kStatisticsRows) {
      measure_block(row, std::min(kStatisticsRows, queries_.length - row));
    }
    measure_columns();
    C* to = in_.statistics + (b_ * in_.heads + h_) * kStatisticsColumns;
    for (int64_t n = 0; n < kStatisticsColumns; ++n) to[n] = static_cast<C>(totals_[n]);
  }

 private:
  // Norms of the values; 0 past the last key.
  void measure_values() {
    const Tag<C> d;
    const int64_t group = h_ / (in_.heads / in_.value_heads);
    const int64_t padded_values = round_up_to_vectors<C>(in_.value_width);
    const int64_t columns = divide_up(keys_.length, kTileKeys) * kTileKeys;
    for (C* empty : {buffers_.norms, buffers_.log_norms}) std::fill_n(empty, columns, C{0});
    for (double* empty : buffers_.received) std::fill_n(empty, columns, 0.0);
    std::fill_n(buffers_.seen, columns, uint8_t{0});
    Vec<C> ignored = hn::Zero(d);
    for (int64_t key = 0; key < keys_.length; ++key) {
      key_rows(in_, in_.value, {b_, group, key, 1}, in_.value_width, buffers_.rows);
      pack_row(buffers_.rows[0], in_.value.column, in_.value_width, padded_values, buffers_.value,
               ignored);
      Vec<C> squares = hn::Zero(d);
      for (int64_t i = 0; i < padded_values; i += lanes<C>()) {
        const Vec<C> x = hn::LoadU(d, buffers_.value + i);
        squares = hn::MulAdd(x, x, squares);
      }
      const C norm = std::sqrt(sum_of_lanes<C>(squares));
      buffers_.norms[key] = norm;
      buffers_.log_norms[key] = norm == 0 ? C{0} : std::log(norm);
    }
  }

  void measure_block(int64_t row, int64_t rows) {
    constexpr RowStatistics<C> kNothing{0, 0, -1, -1};
    for (RowStatistics<C>* empty : buffers_.row) std::fill_n(empty, rows, kNothing);
    std::fill_n(buffers_.sums, rows, RowSums{});
    block_rows_ = {h_, row, rows, 0, rows};
    const KeyRange keys =
        visible_to_rows(in_.rule, {row, row + rows}, queries_.length, keys_.length);
    const int64_t begin = keys.begin / kTileKeys * kTileKeys;
    const bool one_tile = keys.end - begin <= kTileKeys;
    for (int64_t key = begin; key < keys.end; key += kTileKeys) {
      for (int64_t first = 0; first < rows; first += kTileRows) {
        if (!weigh_tile(key, first)) continue;
        sum_tile();
        if (!one_tile) continue;
        finish_sums(first, view_.rows);
        measure_tile();
      }
    }
    if (!one_tile) finish_sums(0, rows);
    for (int64_t key = begin; key < keys.end && !one_tile; key += kTileKeys) {
      for (int64_t first = 0; first < rows; first += kTileRows) {
        if (weigh_tile(key, first)) measure_tile();
      }
    }
    for (int64_t n = 0; n < rows; ++n) add_row(row + n, n);
  }

  // Weights and their logarithms of rows `first` … of the block. Whether there are any.
  bool weigh_tile(int64_t first_key, int64_t first) {
    tile_.b = b_;
    tile_.rows = block_rows_;
    tile_.rows.first = first;
    tile_.rows.count = std::min(kTileRows, block_rows_.count - first);
    tile_.first_key = first_key;
    tile_.keys = std::min(kTileKeys, keys_.length - first_key);
    look_along_rows(in_, tile_, buffers_.elements, view_);
    if (view_.empty()) return false;
    pack_keys();
    const RowList<T> list = query_rows(in_.query, tile_, queries_, in_.width, buffers_.rows);
    products_along_rows<C>(view_, left_operand(list, buffers_.queries), buffers_.keys, tile_.keys,
                           in_.width, buffers_.logs);
    const KeyRange all = row_vectors<C>(view_.all);
    for (int64_t r = 0; r < view_.rows; ++r) {
      const KeyRange& range = view_.row[r];
      std::fill(weights_of(r) + all.begin, weights_of(r) + all.end, C{0});
      if (range.begin == range.end) continue;
      const C* elements =
          buffers_.elements == nullptr ? nullptr : buffers_.elements + r * kTileKeys;
      weigh_statistics_row<C>(logs_of(r), weights_of(r), range, static_cast<C>(in_.scale), elements,
                              *in_.lse.at(b_, h_, queries_.first + tile_.rows.row(r)));
    }
    return true;
  }

  void pack_keys() {
    if (packed_key_ == tile_.first_key) return;
    packed_key_ = tile_.first_key;
    const KeyPlace place{b_, in_.group_of(h_), tile_.first_key, tile_.keys};
    pack_transposed<T>(key_rows(in_, in_.key, place, in_.width, buffers_.rows), buffers_.keys);
  }

  C* logs_of(int64_t r) const { return buffers_.logs + r * kTileKeys; }
  C* weights_of(int64_t r) const { return buffers_.weights + r * kTileKeys; }

  void sum_tile() {
    for (int64_t r = 0; r < view_.rows; ++r) {
      add_row_sums<C>(logs_of(r), weights_of(r), buffers_.norms + tile_.first_key, view_.row[r],
                      buffers_.sums[tile_.rows.first + r]);
    }
  }

  void finish_sums(int64_t first, int64_t rows) {
    for (int64_t n = first; n < first + rows; ++n) buffers_.sums[n].finish();
  }

  void measure_tile() {
    for (int64_t r = 0; r < view_.rows; ++r) look_around_diagonal(r);
    measure_version<0>();
    measure_version<1>();
  }

  // Which keys row r sees: those near the diagonal are counted, all are marked.
  void look_around_diagonal(int64_t r) {
    const KeyRange& range = view_.row[r];
    const C* logs = logs_of(r);
    constexpr C kHidden = -std::numeric_limits<C>::infinity();
    uint8_t* seen = buffers_.seen + tile_.first_key;
    if (buffers_.elements == nullptr) {
      std::fill(seen + range.begin, seen + range.end, uint8_t{1});
    } else {
      for (int64_t j = range.begin; j < range.end; ++j) {
        seen[j] = static_cast<uint8_t>(seen[j] | static_cast<uint8_t>(logs[j] != kHidden));
      }
    }
    const KeyRange near = near_diagonal(r);
    for (int64_t j = near.begin; j < near.end; ++j) {
      if (logs[j] != kHidden) totals_[kRowsAt + offset_of(r, j)] += 1;
    }
  }

  // Columns of the row's range at an offset that is told apart.
  KeyRange near_diagonal(int64_t r) const {
    const int64_t center = tile_.rows.row(r) + diagonal_ - tile_.first_key;
    const KeyRange& range = view_.row[r];
    return {std::max(range.begin, center - kLargestOffset),
            std::min(range.end, center + kLargestOffset + 1)};
  }
  int64_t offset_of(int64_t r, int64_t j) const {
    return tile_.first_key + j - tile_.rows.row(r) - diagonal_ + kLargestOffset;
  }

  template <int64_t kVersion>
  void measure_version() {
    double* totals = totals_ + first_column(kVersion);
    for (int64_t r = 0; r < view_.rows; ++r) {
      const KeyRange& range = view_.row[r];
      if (range.begin == range.end) continue;
      const int64_t n = tile_.rows.first + r;
      const C* weights = weights_of(r);
      gather_row<kVersion == 1, C>(
          {logs_of(r), weights_of(r), buffers_.norms + tile_.first_key,
           buffers_.log_norms + tile_.first_key, range,
           tile_.first_key - tile_.rows.row(r) - diagonal_, tile_.first_key},
          buffers_.sums[n].whole[kVersion], buffers_.row[kVersion][n]);
      const KeyRange near = near_diagonal(r);
      for (int64_t j = near.begin; j < near.end; ++j) {
        totals[kMass + offset_of(r, j)] += weights[j];
      }
      if (tile_.first_key == 0 && range.begin == 0) totals[kFirst] += weights[0];
      const int64_t last = keys_.length - 1 - tile_.first_key;
      if (range.end == last + 1) totals[kLast] += weights[last];
    }
    add_columns(buffers_.received[kVersion] + tile_.first_key);
  }

  void add_columns(double* received) {
    const Tag<C> d;
    const KeyRange vectors = row_vectors<C>(view_.all);
    for (int64_t j = vectors.begin; j < vectors.end; j += lanes<C>()) {
      Vec<C> sum = hn::Zero(d);
      for (int64_t r = 0; r < view_.rows; ++r) sum = hn::Add(sum, hn::LoadU(d, weights_of(r) + j));
      hn::StoreU(sum, d, buffers_.column + j);
    }
    for (int64_t j = view_.all.begin; j < view_.all.end; ++j) received[j] += buffers_.column[j];
  }

  // Row n of the block, row i of the sequence, when all its keys have been met.
  void add_row(int64_t i, int64_t n) {
    const int64_t seen = buffers_.sums[n].keys;
    if (seen == 0) return;
    totals_[kRows] += 1;
    totals_[kRowsWithChoice] += seen > 1 ? 1 : 0;
    totals_[kChance] += 1 / static_cast<double>(seen);
    for (int64_t version = 0; version < kStatisticsVersions; ++version) {
      const RowStatistics<C>& row = buffers_.row[version][n];
      if (row.largest == 0) continue;  // all values the row sees are 0
      add_row_version(row, i, seen, totals_ + first_column(version));
    }
  }

  void add_row_version(const RowStatistics<C>& row, int64_t i, int64_t seen, double* totals) const {
    const double entropy = row.entropy < 0 ? 0 : row.entropy;  // rounding; NaN stays
    totals[kEntropy] += entropy;
    if (seen > 1) totals[kNormalisedEntropy] += entropy / std::log(static_cast<double>(seen));
    totals[kEffectiveKeys] += std::exp(entropy);
    totals[kDistance] += row.distance;
    if (row.top_key < 0) {  // every weight is NaN
      totals[kLargest] = std::numeric_limits<double>::quiet_NaN();
      return;
    }
    totals[kLargest] += row.largest;
    totals[kMisalignment] +=
        std::abs(static_cast<double>(row.top_key) / static_cast<double>(keys_.length) -
                 static_cast<double>(i) / static_cast<double>(queries_.length));
    const int64_t offset = row.top_key - i - diagonal_;
    if (std::abs(offset) <= kLargestOffset) totals[kTopKeys + kLargestOffset + offset] += 1;
  }

  void measure_columns() {
    for (int64_t j = 0; j < keys_.length; ++j) totals_[kKeys] += buffers_.seen[j];
    for (int64_t version = 0; version < kStatisticsVersions; ++version) {
      double* totals = totals_ + first_column(version);
      const double* received = buffers_.received[version];
      totals[kTopColumnIndex] = -1;
      for (int64_t j = 0; j < keys_.length; ++j) {
        if (buffers_.seen[j] == 0) continue;
        totals[kCoverage] += received[j] > 1 ? 1 : received[j];
        const bool better = received[j] > totals[kTopColumn] || std::isnan(received[j]);
        if (!better && totals[kTopColumnIndex] >= 0) continue;
        totals[kTopColumn] = received[j];
        totals[kTopColumnIndex] = static_cast<double>(j);
        if (std::isnan(received[j])) break;
      }
    }
  }

  const StatisticsParams<T>& in_;
  Arena arena_;
  const StatisticsBuffers<T> buffers_;
  const int64_t b_, h_;
  const Span queries_, keys_;
  const int64_t diagonal_;  // the key of row 0
  TileRows block_rows_;
  TilePlace tile_;
  SeenByRows view_;
  int64_t packed_key_ = -1;
  double totals_[kStatisticsColumns] = {};
};

void run_statistics(ElementType type, const void* params, const ItemRange& items,
                    const Memory& memory) {
  visit(type, [&](auto number) {
    using T = decltype(number);
    for (int64_t item = items.begin; item < items.end; ++item) {
      StatisticsItem<T>(*static_cast<const StatisticsParams<T>*>(params), item, memory).run();
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise::kernels {
namespace cpu {
HWY_EXPORT(run_statistics);
}  // namespace cpu

template <typename T>
Plan plan(const StatisticsParams<T>& params) {
  cpu::Arena arena(nullptr);
  const cpu::StatisticsBuffers<T> buffers(arena, params);
  const Sequences& s = params.sequences;
  const int64_t passes = s.key_rows > cpu::kTileKeys ? 2 : 1;
  Plan plan{"cpu/tiles", cpu::instruction_set(), {}};
  plan.phases.push_back(
      {s.count * params.heads, arena.bytes(), passes * s.query_rows * s.key_rows * params.width});
  plan.tile = {cpu::kTileRows, cpu::kTileKeys};
  plan.block = {s.query_rows, s.key_rows};
  return plan;
}

template <typename T>
void run(const StatisticsParams<T>& params, size_t /*phase*/, const ItemRange& items,
         const Memory& memory) {
  HWY_DYNAMIC_DISPATCH(cpu::run_statistics)(kElementType<T>, &params, items, memory);
}

template Plan plan(const StatisticsParams<float>&);
template Plan plan(const StatisticsParams<double>&);
template Plan plan(const StatisticsParams<BFloat16>&);
template Plan plan(const StatisticsParams<Half>&);
template void run(const StatisticsParams<float>&, size_t, const ItemRange&, const Memory&);
template void run(const StatisticsParams<double>&, size_t, const ItemRange&, const Memory&);
template void run(const StatisticsParams<BFloat16>&, size_t, const ItemRange&, const Memory&);
template void run(const StatisticsParams<Half>&, size_t, const ItemRange&, const Memory&);

}  // namespace headwise::kernels
#endif  // HWY_ONCE
