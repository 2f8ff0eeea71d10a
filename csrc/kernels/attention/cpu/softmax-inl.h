// Softmax forward, down the keys of a tile, one query row a lane.
#if defined(HEADWISE_ATTENTION_SOFTMAX_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_SOFTMAX_INL_H
#undef HEADWISE_ATTENTION_SOFTMAX_INL_H
#else
#define HEADWISE_ATTENTION_SOFTMAX_INL_H
#endif

#include <algorithm>

#include "csrc/kernels/attention/cpu/dropout-inl.h"
#include "csrc/kernels/attention/cpu/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename T>
struct SoftmaxColumn {
  using C = Compute<T>;

  ScoreColumn<C> column;
  KeptColumn kept;

  Vec<C> largest() const {
    const KeyRange& keys = column.range;
    Vec<C> top = minus_infinity<C>();
    int64_t j = keys.begin;
    for (; j + 4 <= keys.end; j += 4) {
      const Vec<C> a = hn::Max(column.score(j), column.score(j + 1));
      const Vec<C> b = hn::Max(column.score(j + 2), column.score(j + 3));
      top = hn::Max(top, hn::Max(a, b));
    }
    for (; j < keys.end; ++j) top = hn::Max(top, column.score(j));
    return top;
  }

  // Scores become exp(score - shift), 0 where dropout drops them; returns the sum of all.
  Vec<C> weigh(Vec<C> shift) const {
    const KeyRange& keys = column.range;
    const Vec<C> zero = hn::Zero(Tag<C>());
    Vec<C> even = zero, odd = zero;
    int64_t j = keys.begin;
    for (; j + 2 <= keys.end; j += 2) {
      even = hn::Add(even, weigh_key(j, shift));
      odd = hn::Add(odd, weigh_key(j + 1, shift));
    }
    if (j < keys.end) even = hn::Add(even, weigh_key(j, shift));
    return hn::Add(even, odd);
  }

  void multiply(Vec<C> factor) const {
    const Tag<C> d;
    for (int64_t j = column.range.begin; j < column.range.end; ++j) {
      C* weight = column.scores + j * kTileRows;
      hn::StoreU(hn::Mul(hn::LoadU(d, weight), factor), d, weight);
    }
  }

 private:
  HWY_INLINE Vec<C> weigh_key(int64_t j, Vec<C> shift) const {
    const Vec<C> weight = exp_score(hn::Sub(column.score(j), shift));
    const Vec<C> stays = kept.words == nullptr ? weight : kept(weight, j);
    hn::StoreU(rounded_to<T>(stays), Tag<C>(), column.scores + j * kTileRows);
    return weight;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_ATTENTION_SOFTMAX_INL_H
