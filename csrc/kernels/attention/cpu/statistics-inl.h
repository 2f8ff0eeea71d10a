// Steps of the statistics that go over one row of a tile.
#if defined(HEADWISE_ATTENTION_STATISTICS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_STATISTICS_INL_H
#undef HEADWISE_ATTENTION_STATISTICS_INL_H
#else
#define HEADWISE_ATTENTION_STATISTICS_INL_H
#endif

#include <algorithm>
#include <cmath>

#include "csrc/kernels/attention/cpu/scores-inl.h"
#include "csrc/kernels/attention/cpu/statistics_layout.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// Products of one row become weights and their logarithms.
template <typename C>
HWY_INLINE void weigh_statistics_row(C* logs, C* weights, const KeyRange& range, C factor,
                                     const C* elements, C lse) {
  const Tag<C> d;
  const KeyRange vectors = whole_vectors<C>(range);
  const Vec<C> scale = hn::Set(d, factor), minus = hn::Set(d, lse);
  for (int64_t j = vectors.begin; j < vectors.end; j += lanes<C>()) {
    const Vec<C> log = hn::Sub(finished_scores<C>(logs, j, range, scale, elements), minus);
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
  const KeyRange vectors = whole_vectors<C>(range);
  Vec<C> sum = hn::Zero(d), norm_sum = hn::Zero(d);
  for (int64_t j = vectors.begin; j < vectors.end; j += lanes<C>()) {
    const Vec<C> weight = hn::LoadU(d, weights + j);
    const Vec<C> product = hn::Mul(weight, hn::LoadU(d, norms + j));
    sum = hn::Add(sum, weight);
    norm_sum = hn::Add(norm_sum, hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(d)), product));
    // Not Ne, which is false for NaN on some instruction sets.
    const auto hidden = hn::Eq(hn::LoadU(d, logs + j), minus_infinity<C>());
    sums.keys += lanes<C>() - static_cast<int64_t>(hn::CountTrue(d, hidden));
  }
  sums.weight += sum_of_lanes<C>(sum);
  sums.norm += sum_of_lanes<C>(norm_sum);
}

// Weights and logarithms of shares of a whole; divided, so that an only key's share is exactly 1.
// The log-sum-exp makes the weights 1 in sum but for its rounding, which goes with it.
template <typename C>
HWY_INLINE void divide_row(C* logs, C* weights, const KeyRange& range, double sum) {
  const Tag<C> d;
  if (range.begin == range.end) return;
  const KeyRange vectors = whole_vectors<C>(range);
  const double whole = sum == 0 ? 1 : sum;
  const Vec<C> divisor = hn::Set(d, static_cast<C>(whole));
  const Vec<C> minus = hn::Set(d, static_cast<C>(std::log(whole)));
  for (int64_t j = vectors.begin; j < vectors.end; j += lanes<C>()) {
    hn::StoreU(hn::Div(hn::LoadU(d, weights + j), divisor), d, weights + j);
    hn::StoreU(hn::Sub(hn::LoadU(d, logs + j), minus), d, logs + j);
  }
}

// Weights become weights times norms.
template <typename C>
HWY_INLINE void weigh_by_norms(C* logs, C* weights, const C* norms, const C* log_norms,
                               const KeyRange& range) {
  const Tag<C> d;
  const KeyRange vectors = whole_vectors<C>(range);
  for (int64_t j = vectors.begin; j < vectors.end; j += lanes<C>()) {
    const Vec<C> weight = hn::LoadU(d, weights + j);
    const Vec<C> product = hn::Mul(weight, hn::LoadU(d, norms + j));
    hn::StoreU(hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(d)), product), d, weights + j);
    hn::StoreU(hn::Add(hn::LoadU(d, logs + j), hn::LoadU(d, log_norms + j)), d, logs + j);
  }
}

// Adds a tile's part to what a row has gathered. to_diagonal: the first column's distance from it.
template <typename C>
HWY_INLINE void gather_row(const C* logs, const C* weights, const KeyRange& range,
                           int64_t to_diagonal, int64_t first_key, RowStatistics<C>& row) {
  const Tag<C> d;
  const KeyRange vectors = whole_vectors<C>(range);
  Vec<C> entropy = hn::Zero(d), distance = hn::Zero(d), largest = hn::Zero(d);
  for (int64_t j = vectors.begin; j < vectors.end; j += lanes<C>()) {
    const Vec<C> weight = hn::LoadU(d, weights + j);
    const Vec<C> term = hn::Mul(weight, hn::LoadU(d, logs + j));
    entropy = hn::Sub(entropy, hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(d)), term));
    const Vec<C> offset = hn::Iota(d, static_cast<C>(j + to_diagonal));
    distance = hn::MulAdd(weight, hn::Abs(offset), distance);
    largest = hn::Max(largest, weight);
  }
  row.entropy += sum_of_lanes<C>(entropy);
  row.distance += sum_of_lanes<C>(distance);
  const C found = largest_lane<C>(largest);
  if (!(found > row.largest)) return;
  row.largest = found;
  row.top_key =
      first_key + (std::find(weights + range.begin, weights + range.end, found) - weights);
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_ATTENTION_STATISTICS_INL_H
