// Steps of the statistics that go over one row of a tile.
#if defined(HEADWISE_ATTENTION_STATISTICS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_STATISTICS_INL_H
#undef HEADWISE_ATTENTION_STATISTICS_INL_H
#else
#define HEADWISE_ATTENTION_STATISTICS_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <limits>

#include "csrc/kernels/attention/cpu/scores-inl.h"
#include "csrc/kernels/attention/cpu/statistics_layout.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// Statistics go along rows, so here a tile lies in memory as (query row, key).

// Keys of whole vectors around a range.
template <typename C>
HWY_INLINE KeyRange row_vectors(const KeyRange& range) {
  const int64_t step = lanes<C>();
  return {range.begin / step * step, round_up_to_vectors<C>(range.end)};
}

// What the rows of a tile see. Bias and element mask, if any, are left in `elements`.
template <typename T>
void look_along_rows(const AttentionInputs<T>& in, const TilePlace& at, Compute<T>* elements,
                     SeenByRows& view) {
  constexpr Compute<T> kHidden = -std::numeric_limits<Compute<T>>::infinity();
  const int64_t queries = in.sequences.query(at.b).length, keys = in.sequences.key(at.b).length;
  view.rows = at.rows.count;
  view.all = {};
  for (int64_t r = 0; r < view.rows; ++r) {
    KeyRange range = visible_range(in.rule, at.rows.row(r), queries, keys);
    range.begin = std::max<int64_t>(range.begin - at.first_key, 0);
    range.end = std::min(range.end - at.first_key, at.keys);
    if (range.end <= range.begin) range = {};
    if (elements != nullptr && range.begin != range.end) {
      Compute<T>* row = elements + r * kTileKeys;
      fill_elements(in, at, r, range, row);
      while (range.begin < range.end && row[range.begin] == kHidden) ++range.begin;
      while (range.end > range.begin && row[range.end - 1] == kHidden) --range.end;
      if (range.end == range.begin) range = {};
    }
    view.row[r] = range;
    SeenByRows::merge(range, view.all);
  }
}

// out(r, j) = row r . key j for all that the rows see; keys transposed in panels.
template <typename C>
void products_along_rows(const SeenByRows& view, const Operand<C>& rows, const C* transposed,
                         int64_t keys, int64_t width, C* out) {
  for (int64_t start = 0, stride; start < keys; start += stride) {
    stride = panel_width<C>(keys - start);
    const int64_t block = even_share(view.rows, most_rows(static_cast<int>(stride / lanes<C>())));
    for (int64_t r = 0; r < view.rows; r += block) {
      const int64_t count = std::min(block, view.rows - r);
      const KeyRange seen = row_vectors<C>(view.of_rows(r, r + count));
      const int64_t from = std::max(seen.begin, start), to = std::min(seen.end, start + stride);
      if (to <= from) continue;
      product_panel<false, C>(count, to - from, {rows.row(r), rows.stride, 1},
                              {transposed + start * width + (from - start), stride}, width,
                              out + r * kTileKeys + from, kTileKeys, Store::kWrite);
    }
  }
}

// Products of one row become weights and their logarithms; 0 and -inf where hidden.
template <typename C>
HWY_INLINE void weigh_statistics_row(C* logs, C* weights, const KeyRange& range, C factor,
                                     const C* elements, C lse) {
  const Tag<C> d;
  const KeyRange vectors = row_vectors<C>(range);
  const Vec<C> scale = hn::Set(d, factor), minus = hn::Set(d, lse), hidden = minus_infinity(d);
  for (int64_t j = vectors.begin; j < vectors.end; j += lanes<C>()) {
    Vec<C> log = hn::Mul(hn::LoadU(d, logs + j), scale);
    if (elements != nullptr) {
      const Vec<C> e = hn::LoadU(d, elements + j);
      log = hn::IfThenElse(hn::Eq(e, hidden), hidden, hn::Add(log, e));
    }
    log = hn::IfThenElse(lanes_within<C>(j, range.begin, range.end), hn::Sub(log, minus), hidden);
    hn::StoreU(log, d, logs + j);
    hn::StoreU(exp_score(log), d, weights + j);
  }
}

// Adds a tile's part to what is known of a row. A weight of 0 meets no norm, which may be that of a
// hidden value.
template <typename C>
HWY_INLINE void add_row_sums(const C* logs, const C* weights, const C* norms, const KeyRange& range,
                             RowSums& sums) {
  const Tag<C> d;
  const KeyRange vectors = row_vectors<C>(range);
  Vec<C> sum = hn::Zero(d), norm_sum = hn::Zero(d);
  for (int64_t j = vectors.begin; j < vectors.end; j += lanes<C>()) {
    const Vec<C> weight = hn::LoadU(d, weights + j);
    const Vec<C> product = hn::Mul(weight, hn::LoadU(d, norms + j));
    sum = hn::Add(sum, weight);
    norm_sum = hn::Add(norm_sum, hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(d)), product));
    // Not Ne, which is false for NaN on some instruction sets.
    const auto hidden = hn::Eq(hn::LoadU(d, logs + j), minus_infinity(d));
    sums.keys += lanes<C>() - static_cast<int64_t>(hn::CountTrue(d, hidden));
  }
  sums.whole[0].sum += sum_of_lanes<C>(sum);
  sums.whole[1].sum += sum_of_lanes<C>(norm_sum);
}

// One row of a tile, to be measured.
template <typename C>
struct MeasuredRow {
  C *logs, *weights;
  const C *norms, *log_norms;  // of the tile's keys
  KeyRange range;
  int64_t to_diagonal;  // of the tile's first key
  int64_t first_key;
};

// Adds a tile's part to what a row has gathered. The weights become shares of their sum, with norms
// of the sum of share times norm. They are divided, so that an only key's share is exactly 1.
template <bool kWithNorms, typename C>
HWY_INLINE void gather_row(const MeasuredRow<C>& of, const Whole& whole, RowStatistics<C>& row) {
  const Tag<C> d;
  const KeyRange vectors = row_vectors<C>(of.range);
  const Vec<C> divisor = hn::Set(d, static_cast<C>(whole.sum));
  const Vec<C> minus = hn::Set(d, static_cast<C>(whole.log));
  Vec<C> entropy = hn::Zero(d), distance = hn::Zero(d), largest = hn::Zero(d);
  for (int64_t j = vectors.begin; j < vectors.end; j += lanes<C>()) {
    Vec<C> weight = hn::LoadU(d, of.weights + j), log = hn::LoadU(d, of.logs + j);
    const auto is_zero = hn::Eq(weight, hn::Zero(d));
    if (kWithNorms) {
      weight = hn::IfThenZeroElse(is_zero, hn::Mul(weight, hn::LoadU(d, of.norms + j)));
      log = hn::Add(log, hn::LoadU(d, of.log_norms + j));
    }
    weight = hn::Div(weight, divisor);
    log = hn::Sub(log, minus);
    hn::StoreU(weight, d, of.weights + j);
    if (!kWithNorms) hn::StoreU(log, d, of.logs + j);
    entropy = hn::Sub(entropy, hn::IfThenZeroElse(is_zero, hn::Mul(weight, log)));
    const Vec<C> offset = hn::Iota(d, static_cast<C>(j + of.to_diagonal));
    distance = hn::MulAdd(weight, hn::Abs(offset), distance);
    largest = hn::Max(largest, weight);
  }
  row.entropy += sum_of_lanes<C>(entropy);
  row.distance += sum_of_lanes<C>(distance);
  const C found = largest_lane<C>(largest);
  if (!(found > row.largest)) return;
  row.largest = found;
  const C* at = std::find(of.weights + of.range.begin, of.weights + of.range.end, found);
  row.top_key = of.first_key + (at - of.weights);
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_ATTENTION_STATISTICS_INL_H
