// The most probable tokens of a row and the sum of its exponentials, while the scores are made a
// chunk at a time.
#if defined(HEADWISE_TRANSFORMER_CHOOSE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_TRANSFORMER_CHOOSE_INL_H
#undef HEADWISE_TRANSFORMER_CHOOSE_INL_H
#else
#define HEADWISE_TRANSFORMER_CHOOSE_INL_H
#endif

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "csrc/kernels/cpu/vectors-inl.h"
#include "csrc/kernels/transformer/cpu/choices.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// `count` in whole vectors.
template <typename C>
void add_exponentials(const C* scores, int64_t count, RowChoices<C>& row) {
  const Tag<C> d;
  const int64_t step = lanes<C>();
  Vec<C> largest = hn::Set(d, row.largest);
  for (int64_t i = 0; i < count; i += step) largest = hn::Max(largest, hn::LoadU(d, scores + i));
  largest = hn::MaxOfLanes(d, largest);
  Vec<C> sum = hn::Zero(d), more = sum;
  int64_t i = 0;
  for (; i + 2 * step <= count; i += 2 * step) {
    sum = hn::Add(sum, exp_score(hn::Sub(hn::LoadU(d, scores + i), largest)));
    more = hn::Add(more, exp_score(hn::Sub(hn::LoadU(d, scores + i + step), largest)));
  }
  if (i < count) sum = hn::Add(sum, exp_score(hn::Sub(hn::LoadU(d, scores + i), largest)));
  const C now = hn::GetLane(largest);
  const C before = row.sum == 0 ? C{0} : row.sum * std::exp(row.largest - now);
  row.sum = before + sum_of_lanes<C>(hn::Add(sum, more));
  row.largest = now;
}

// Scores become probabilities; `row` has seen all of them.
template <typename C>
void make_probabilities(C* scores, int64_t count, const RowChoices<C>& row) {
  const Tag<C> d;
  const Vec<C> largest = hn::Set(d, row.largest), share = hn::Set(d, C{1} / row.sum);
  for (int64_t i = 0; i < count; i += lanes<C>()) {
    const Vec<C> power = exp_score(hn::Sub(hn::LoadU(d, scores + i), largest));
    hn::StoreU(hn::Mul(power, share), d, scores + i);
  }
}

// A score that at least `wanted` scores reach, or -inf: the largest of each lane are as many scores
// as there are lanes.
template <typename C>
C reached_by(const C* scores, int64_t count, int64_t wanted) {
  const Tag<C> d;
  const int64_t step = lanes<C>();
  constexpr C kNone = -std::numeric_limits<C>::infinity();
  if (wanted > step) return kNone;
  Vec<C> largest = minus_infinity(d);
  for (int64_t i = 0; i < count; i += step) largest = hn::Max(largest, hn::LoadU(d, scores + i));
  HWY_ALIGN C each[16];
  hn::Store(largest, d, each);
  std::nth_element(each, each + wanted - 1, each + step, std::greater<>());
  return each[wanted - 1];
}

// Puts the chunk's best among the choices; `first` is the token of scores[0]. Few numbers ever pass
// the worst choice.
template <typename C>
void choose(const C* scores, int64_t first, int64_t count, int64_t wanted, RowChoices<C>& row) {
  const Tag<C> d;
  const int64_t step = lanes<C>();
  if (row.count == 0) {
    const C reached = reached_by(scores, count, wanted);
    row.floor = std::nextafter(reached, -std::numeric_limits<C>::infinity());
  }
  for (int64_t i = 0; i < count; i += step) {
    const auto passes = hn::Gt(hn::LoadU(d, scores + i), hn::Set(d, row.floor));
    if (hn::AllFalse(d, passes)) continue;
    uint8_t bytes[8] = {};
    hn::StoreMaskBits(d, passes, bytes);
    for (unsigned bits = bytes[0] | bytes[1] << 8; bits != 0; bits &= bits - 1) {
      const int64_t k = i + std::countr_zero(bits);
      if (scores[k] > row.floor) row.insert(scores[k], static_cast<int32_t>(first + k), wanted);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_TRANSFORMER_CHOOSE_INL_H
