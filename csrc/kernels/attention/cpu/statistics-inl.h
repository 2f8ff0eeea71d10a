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

// Scores of one row become weights and their logarithms.
template <typename C>
HWY_INLINE void weigh_statistics_row(C* logs, C* weights, const KeyRange& range, C lse) {
  const Tag<C> d;
  const KeyRange vectors = whole_vectors<C>(range);
  const Vec<C> minus = hn::Set(d, lse);
  for (int64_t j = vectors.begin; j < vectors.end; j += lanes<C>()) {
    const Vec<C> log = hn::Sub(hn::LoadU(d, logs + j), minus);
    hn::StoreU(log, d, logs + j);
    hn::StoreU(exp_score(log), d, weights + j);
  }
}

// How many keys a row sees, and the sum of weight times norm. A weight of 0 meets no norm, which
// may be that of a hidden value.
struct SeenKeys {
  int64_t count = 0;
  double norm_sum = 0;
};
template <typename C>
HWY_INLINE SeenKeys count_seen_keys(const C* logs, const C* weights, const C* norms,
                                    const KeyRange& range) {
  const Tag<C> d;
  const KeyRange vectors = whole_vectors<C>(range);
  SeenKeys seen;
  Vec<C> sum = hn::Zero(d);
  for (int64_t j = vectors.begin; j < vectors.end; j += lanes<C>()) {
    const Vec<C> weight = hn::LoadU(d, weights + j);
    const Vec<C> product = hn::Mul(weight, hn::LoadU(d, norms + j));
    sum = hn::Add(sum, hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(d)), product));
    // Not Ne, which is false for NaN on some instruction sets.
    const auto hidden = hn::Eq(hn::LoadU(d, logs + j), minus_infinity<C>());
    seen.count += lanes<C>() - static_cast<int64_t>(hn::CountTrue(d, hidden));
  }
  seen.norm_sum = sum_of_lanes<C>(sum);
  return seen;
}

// Weights become shares of weight times norm.
template <typename C>
HWY_INLINE void weigh_by_norms(C* logs, C* weights, const C* norms, const C* log_norms,
                               const KeyRange& range, double norm_sum) {
  const Tag<C> d;
  const KeyRange vectors = whole_vectors<C>(range);
  const double whole = norm_sum == 0 ? 1 : norm_sum;
  const Vec<C> divisor = hn::Set(d, static_cast<C>(whole));
  const Vec<C> minus = hn::Set(d, static_cast<C>(std::log(whole)));
  for (int64_t j = vectors.begin; j < vectors.end; j += lanes<C>()) {
    const Vec<C> weight = hn::LoadU(d, weights + j);
    // Divided, so that the share of a row's only key is exactly 1.
    const Vec<C> share = hn::Div(hn::Mul(weight, hn::LoadU(d, norms + j)), divisor);
    hn::StoreU(hn::IfThenZeroElse(hn::Eq(weight, hn::Zero(d)), share), d, weights + j);
    const Vec<C> log = hn::Add(hn::LoadU(d, logs + j), hn::LoadU(d, log_norms + j));
    hn::StoreU(hn::Sub(log, minus), d, logs + j);
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
