// Softmax backward, down the keys of a tile, one query row a lane. With P the weights, F the
// dropout factors, g and e the gradients of output and log-sum-exp:
//   W  = F (g V^T)                              gradient of the weights
//   dS = P (W - sum(P W) + e)                   gradient of the scores
#if defined(HEADWISE_ATTENTION_GRADIENT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_GRADIENT_INL_H
#undef HEADWISE_ATTENTION_GRADIENT_INL_H
#else
#define HEADWISE_ATTENTION_GRADIENT_INL_H
#endif

#include "csrc/kernels/attention/cpu/dropout-inl.h"
#include "csrc/kernels/attention/cpu/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// Factors that weights and score gradients are left with.
template <typename C>
struct GradientFactors {
  C weights = 1, scores = 1;
};

template <typename T, class D = Tag<Compute<T>>>
struct GradientColumn {
  using C = Compute<T>;
  using V = hn::Vec<D>;

  ScoreColumn<C, D> column;  // products of queries and keys; on return P, 0 where dropped
  KeptColumn kept;
  C* gradients;   // g V^T; on return dS
  V kept_factor;  // of what dropout keeps
  V lse;
  V shift;  // sum(P W) - e; for run_whole -e
  GradientFactors<C> factors;

  // Some of the keys.
  void run_part() const {
    for (int64_t j = column.range.begin; j < column.range.end; ++j) {
      const V p = weight(j);
      leave(p, weight_gradient(p, j), shift, j);
    }
  }

  // All keys: sum(P W) is taken over them and P is divided by its own sum, so that the rounding of
  // the log-sum-exp cancels.
  void run_whole() const {
    const D d;
    const KeyRange& keys = column.range;
    const V zero = hn::Zero(d);
    V sum = zero, product = zero;
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      const V p = weight(j);
      sum = hn::Add(sum, p);
      hn::StoreU(weight_gradient(p, j), d, gradients + j * kTileRows);
      hn::StoreU(p, d, column.scores + j * kTileRows);
    }
    sum = hn::IfThenElse(hn::Eq(sum, zero), hn::Set(d, C{1}), sum);
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      C* weights = column.scores + j * kTileRows;
      // The sum of a row that is NaN must not reach what the row does not see.
      V p = hn::LoadU(d, weights);
      p = hn::IfThenZeroElse(hn::Eq(p, zero), hn::Div(p, sum));
      product = hn::MulAdd(p, hn::LoadU(d, gradients + j * kTileRows), product);
      hn::StoreU(p, d, weights);
    }
    const V lower = hn::Add(shift, product);
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      leave(hn::LoadU(d, column.scores + j * kTileRows), hn::LoadU(d, gradients + j * kTileRows),
            lower, j);
    }
  }

 private:
  HWY_INLINE V weight(int64_t j) const { return weight_of(column.score(j), lse); }

  // W. Where P is 0 it is 0 too: a hidden key may have made it NaN.
  HWY_INLINE V weight_gradient(V p, int64_t j) const {
    const D d;
    V w = hn::LoadU(d, gradients + j * kTileRows);
    if (kept.words != nullptr) w = kept(hn::Mul(w, kept_factor), j);
    return hn::IfThenZeroElse(hn::Eq(p, hn::Zero(d)), w);
  }

  HWY_INLINE void leave(V p, V w, V lower, int64_t j) const {
    const D d;
    const V by = hn::Set(d, factors.scores);
    // Lanes without a row have rubbish to subtract, but no weight.
    const V gradient =
        hn::IfThenZeroElse(hn::Eq(p, hn::Zero(d)), hn::Mul(hn::Mul(p, hn::Sub(w, lower)), by));
    hn::StoreU(rounded_to<T>(gradient), d, gradients + j * kTileRows);
    p = hn::Mul(p, hn::Set(d, factors.weights));
    if (kept.words != nullptr) p = kept(p, j);
    hn::StoreU(rounded_to<T>(p), d, column.scores + j * kTileRows);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_ATTENTION_GRADIENT_INL_H
