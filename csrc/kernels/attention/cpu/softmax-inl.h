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

template <typename T, class D = Tag<Compute<T>>>
struct SoftmaxColumn {
  using C = Compute<T>;
  using V = hn::Vec<D>;

  ScoreColumn<C, D> column;
  KeptColumn kept;

  V largest() const {
    const KeyRange& keys = column.range;
    V top = minus_infinity(D());
    int64_t j = keys.begin;
    for (; j + 4 <= keys.end; j += 4) {
      const V a = hn::Max(column.score(j), column.score(j + 1));
      const V b = hn::Max(column.score(j + 2), column.score(j + 3));
      top = hn::Max(top, hn::Max(a, b));
    }
    for (; j < keys.end; ++j) top = hn::Max(top, column.score(j));
    return top;
  }

  // Scores become exp(score - shift), 0 where dropout drops them; returns the sum of all.
  V weigh(V shift) const {
    const KeyRange& keys = column.range;
    const V zero = hn::Zero(D());
    V even = zero, odd = zero;
    int64_t j = keys.begin;
    for (; j + 2 <= keys.end; j += 2) {
      even = hn::Add(even, weigh_key(j, shift));
      odd = hn::Add(odd, weigh_key(j + 1, shift));
    }
    if (j < keys.end) even = hn::Add(even, weigh_key(j, shift));
    return hn::Add(even, odd);
  }

  void multiply(V factor) const {
    const D d;
    for (int64_t j = column.range.begin; j < column.range.end; ++j) {
      C* weight = column.scores + j * kTileRows;
      hn::StoreU(hn::Mul(hn::LoadU(d, weight), factor), d, weight);
    }
  }

 private:
  HWY_INLINE V weigh_key(int64_t j, V shift) const {
    const V weight = exp_score(hn::Sub(column.score(j), shift));
    const V stays = kept.words == nullptr ? weight : kept(weight, j);
    hn::StoreU(rounded_to<T>(stays), D(), column.scores + j * kTileRows);
    return weight;
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_ATTENTION_SOFTMAX_INL_H
