// The rows' side of the loss: losses, and gradients of hidden rows.
#if defined(HEADWISE_LOSS_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_LOSS_ROWS_INL_H
#undef HEADWISE_LOSS_ROWS_INL_H
#else
#define HEADWISE_LOSS_ROWS_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <limits>

#include "csrc/kernels/linear_cross_entropy/cpu/item-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename F>
class LossRows : private LossItem<F> {
  using Base = LossItem<F>;
  using Base::kPanel;
  using typename Base::C;
  using typename Base::Layout;

 public:
  LossRows(const LinearCrossEntropyParams<C>& params, const Memory& memory)
      : Base(params, memory) {}

  // Losses of rows, and their gradients.
  void own_rows(int64_t chunk, int64_t block) {
    set_chunk(chunk);
    first_ = block * Layout::kRows;
    count_ = std::min(Layout::kRows, chunk_rows_ - first_);
    if (count_ <= 0) return;
    factors_.set_rows(first_, count_);
    average_weights();
    mean_bias_ = mean_bias();
    std::fill_n(scratch_.sums, count_ * in_.width, C{0});
    std::fill_n(largest_, count_, -std::numeric_limits<C>::infinity());
    std::fill_n(sum_, count_, C{0});
    if (in_.consistency == 0) {
      leave_exponentials();
    } else {
      leave_pair_gradients();
    }
    for (int64_t r = 0; r < count_; ++r) finish_row(r);
  }

 private:
  using Base::add_row;
  using Base::block_columns;
  using Base::block_rows;
  using Base::chunk_;
  using Base::chunk_rows_;
  using Base::factors_;
  using Base::first_panel;
  using Base::in_;
  using Base::layout_;
  using Base::panels_end;
  using Base::row_weight;
  using Base::scratch_;
  using Base::set_chunk;
  using Base::work_;

  void average_weights() {
    std::fill_n(scratch_.mean, in_.width, C{0});
    const C share = C{1} / static_cast<C>(in_.classes);
    for (int64_t panel = 0; panel < layout_.panels; ++panel) {
      add_row(share, work_.panel_sums + panel * in_.width, scratch_.mean);
    }
  }

  void score_tile(int64_t tile) {
    const int64_t share = block_rows(count_), columns = block_columns();
    const int64_t depth = LossFactors<F>::depth(in_.width);
    for (int64_t panel = first_panel(tile); panel < panels_end(tile); ++panel) {
      for (int64_t v = 0; v < kPanel; v += columns) {
        const RightFactor<F> right = factors_.transposed(panel, v);
        for (int64_t r = 0; r < count_; r += share) {
          product_panel(std::min(share, count_ - r), columns, factors_.hidden(r), right, depth,
                        factors_.scores(panel, r) + v, kPanel, Store::kWrite);
        }
      }
      add_bias(panel);
    }
  }

  // Classes that do not exist get -inf.
  void add_bias(int64_t panel) {
    const int64_t count = std::min(kPanel, in_.classes - panel * kPanel);
    if (in_.bias == nullptr && count == kPanel) return;
    for (int64_t r = 0; r < count_; ++r) {
      C* row = factors_.scores(panel, r);
      for (int64_t v = 0; in_.bias != nullptr && v < count; ++v) {
        row[v] += in_.bias[panel * kPanel + v];
      }
      std::fill(row + count, row + kPanel, -std::numeric_limits<C>::infinity());
    }
  }

  void leave_exponentials() {
    for (int64_t tile = 0; tile < layout_.tiles; ++tile) {
      score_tile(tile);
      for (int64_t r = 0; r < count_; ++r) {
        note_label_score(tile, r);
        exponentiate(tile, r);
      }
      add_tile(tile);
    }
    for (int64_t r = 0; r < count_; ++r) {
      work_.largest[first_ + r] = largest_[r];
      scale_[r] = row_weight(chunk_ + first_ + r) / sum_[r];
      divergence_[r] = 0;
    }
  }

  void note_label_score(int64_t tile, int64_t r) {
    const int64_t label = in_.labels[chunk_ + first_ + r];
    if (label < first_panel(tile) * kPanel) return;
    if (label >= std::min(panels_end(tile) * kPanel, in_.classes)) return;
    label_score_[r] = factors_.scores(label / kPanel, r)[label % kPanel];
  }

  // Scores of one row become exp(score - largest so far); what has been summed is lowered to it.
  void exponentiate(int64_t tile, int64_t r) {
    const Tag<C> d;
    const int64_t begin = first_panel(tile), end = panels_end(tile);
    const C before = largest_[r], now = std::max(before, largest_of(tile, r));
    const Vec<C> shift = hn::Set(d, now);
    Vec<C> total = hn::Zero(d);
    for (int64_t panel = begin; panel < end; ++panel) {
      C* row = factors_.scores(panel, r);
      for (int64_t v = 0; v < kPanel; v += lanes<C>()) {
        const Vec<C> x = exp_score(hn::Sub(hn::LoadU(d, row + v), shift));
        total = hn::Add(total, x);
        hn::StoreU(x, d, row + v);
      }
    }
    if (now != before && tile > 0) {
      const C decay = hn::GetLane(exp_score(hn::Set(d, before - now)));
      sum_[r] *= decay;
      C* sums = scratch_.sums + r * in_.width;
      for (int64_t i = 0; layout_.differentiates && i < in_.width; ++i) sums[i] *= decay;
    }
    sum_[r] += sum_of_lanes<C>(total);
    largest_[r] = now;
    work_.reference[tile * layout_.chunk + first_ + r] = now;
  }

  // Rows 2n and 2n + 1 are a pair, with p and q. Their divergences are known only after all
  // classes, so scores are made twice; the second time they become gradients of scores,
  //   w (p - t) + k/2 (p (log p - log q - KL(p, q)) + p - q)   without the target's part.
  void leave_pair_gradients() {
    std::fill_n(divergence_, count_, C{0});
    for (int64_t tile = 0; tile < layout_.tiles; ++tile) {
      score_tile(tile);
      for (int64_t r = 0; r < count_; ++r) note_label_score(tile, r);
      for (int64_t r = 0; r < count_; r += 2) sum_pair(tile, r);
    }
    C log_sum[Layout::kRows];
    for (int64_t r = 0; r < count_; ++r) log_sum[r] = largest_[r] + std::log(sum_[r]);
    for (int64_t r = 0; r < count_; ++r) {
      divergence_[r] = divergence_[r] / sum_[r] - (log_sum[r] - log_sum[r ^ 1]);
    }
    for (int64_t tile = 0; layout_.differentiates && tile < layout_.tiles; ++tile) {
      score_tile(tile);
      for (int64_t r = 0; r < count_; r += 2) differentiate_pair(tile, r, log_sum);
      add_tile(tile);
      std::fill_n(work_.reference + tile * layout_.chunk + first_, count_, C{0});
    }
    for (int64_t r = 0; r < count_; ++r) {
      work_.largest[first_ + r] = 0;
      scale_[r] = 1;
      const C half = pair_weight(r) / 2;
      divergence_[r] = half == 0 ? C{0} : half * divergence_[r];  // a row left out may be NaN
    }
  }

  // What the divergence of the pair of row r counts in the loss.
  C pair_weight(int64_t r) const {
    const C one = row_weight(chunk_ + first_ + r), other = row_weight(chunk_ + first_ + (r ^ 1));
    if (one == 0 || other == 0) return 0;
    return static_cast<C>(in_.consistency) * (one + other) / 2;
  }

  C largest_of(int64_t tile, int64_t r) const {
    const Tag<C> d;
    Vec<C> top = minus_infinity(d);
    for (int64_t panel = first_panel(tile); panel < panels_end(tile); ++panel) {
      const C* row = factors_.scores(panel, r);
      for (int64_t v = 0; v < kPanel; v += lanes<C>()) top = hn::Max(top, hn::LoadU(d, row + v));
    }
    return largest_lane<C>(top);
  }

  // Of rows r and r + 1: sums of exp(score - largest so far), and of these times the difference to
  // the partner's score.
  void sum_pair(int64_t tile, int64_t r) {
    const Tag<C> d;
    for (int64_t i = r; i < r + 2; ++i) {
      const C now = std::max(largest_[i], largest_of(tile, i));
      if (now != largest_[i] && tile > 0) {
        const C decay = hn::GetLane(exp_score(hn::Set(d, largest_[i] - now)));
        sum_[i] *= decay;
        divergence_[i] *= decay;
      }
      largest_[i] = now;
    }
    const Vec<C> shift = hn::Set(d, largest_[r]), partner_shift = hn::Set(d, largest_[r + 1]);
    Vec<C> sum = hn::Zero(d), partner_sum = hn::Zero(d);
    Vec<C> cross = hn::Zero(d), partner_cross = hn::Zero(d);
    for (int64_t panel = first_panel(tile); panel < panels_end(tile); ++panel) {
      const C *row = factors_.scores(panel, r), *partner = factors_.scores(panel, r + 1);
      for (int64_t v = 0; v < kPanel; v += lanes<C>()) {
        const Vec<C> a = hn::LoadU(d, row + v), b = hn::LoadU(d, partner + v);
        const Vec<C> x = exp_score(hn::Sub(a, shift)), y = exp_score(hn::Sub(b, partner_shift));
        const Vec<C> difference = hn::Sub(a, b);
        sum = hn::Add(sum, x);
        partner_sum = hn::Add(partner_sum, y);
        cross = hn::Add(cross, product_unless_zero(x, difference));
        partner_cross = hn::Sub(partner_cross, product_unless_zero(y, difference));
      }
    }
    sum_[r] += sum_of_lanes<C>(sum);
    sum_[r + 1] += sum_of_lanes<C>(partner_sum);
    divergence_[r] += sum_of_lanes<C>(cross);
    divergence_[r + 1] += sum_of_lanes<C>(partner_cross);
  }

  // 0 where the probability is 0: scores of classes that do not exist are -inf, and their
  // difference NaN.
  static HWY_INLINE Vec<C> product_unless_zero(Vec<C> probability, Vec<C> by) {
    const hn::DFromV<Vec<C>> d;
    return hn::IfThenElseZero(hn::Ne(probability, hn::Zero(d)), hn::Mul(probability, by));
  }

  // Scores of rows r and r + 1 become their gradients.
  void differentiate_pair(int64_t tile, int64_t r, const C* log_sum) {
    const Tag<C> d;
    const C half = pair_weight(r) / 2;
    const Vec<C> shift = hn::Set(d, log_sum[r]), partner_shift = hn::Set(d, log_sum[r + 1]);
    const auto own_part = [&](int64_t i) {
      const C weight = row_weight(chunk_ + first_ + i);
      return hn::Set(d, half == 0 ? weight : weight + half * (1 - divergence_[i]));
    };
    const Vec<C> own = own_part(r), partner_own = own_part(r + 1);
    const Vec<C> by = hn::Set(d, half);
    for (int64_t panel = first_panel(tile); panel < panels_end(tile); ++panel) {
      C *row = factors_.scores(panel, r), *partner = factors_.scores(panel, r + 1);
      for (int64_t v = 0; v < kPanel; v += lanes<C>()) {
        const Vec<C> a = hn::Sub(hn::LoadU(d, row + v), shift);
        const Vec<C> b = hn::Sub(hn::LoadU(d, partner + v), partner_shift);
        const Vec<C> p = exp_score(a), q = exp_score(b);
        if (half == 0) {  // a partner that is left out must not be seen
          hn::StoreU(hn::Mul(p, own), d, row + v);
          hn::StoreU(hn::Mul(q, partner_own), d, partner + v);
          continue;
        }
        const Vec<C> ratio = hn::Mul(by, hn::Sub(a, b));
        hn::StoreU(hn::NegMulAdd(by, q, product_unless_zero(p, hn::Add(own, ratio))), d, row + v);
        hn::StoreU(hn::NegMulAdd(by, p, product_unless_zero(q, hn::Sub(partner_own, ratio))), d,
                   partner + v);
      }
    }
  }

  // A tile's factors for the products, and the rows' share of them.
  void add_tile(int64_t tile) {
    if (!layout_.differentiates) return;
    for (int64_t panel = first_panel(tile); panel < panels_end(tile); ++panel) {
      factors_.pack_exponentials(panel);
    }
    add_tile_to_rows(tile);
  }

  // sums += exponentials . weights
  void add_tile_to_rows(int64_t tile) {
    const int64_t share = block_rows(count_), columns = block_columns();
    for (int64_t panel = first_panel(tile); panel < panels_end(tile); ++panel) {
      const int64_t count = std::min(kPanel, in_.classes - panel * kPanel);
      for (int64_t i = 0; i < in_.width; i += columns) {
        const RightFactor<F> right = factors_.weights(panel, i);
        const int64_t wide = std::min(columns, in_.width - i);
        for (int64_t r = 0; r < count_; r += share) {
          product_panel(std::min(share, count_ - r), wide, factors_.row_exponentials(panel, r),
                        right, LossFactors<F>::depth(count), scratch_.sums + r * in_.width + i,
                        in_.width, Store::kAdd);
        }
      }
    }
  }

  void finish_row(int64_t r) {
    const int64_t row = chunk_ + first_ + r;
    const C weight = row_weight(row);
    work_.factor[first_ + r] = weight == 0 ? C{0} : scale_[r];
    in_.loss[row] = in_.nll[row] = 0;
    if (weight != 0) leave_loss(r, row, static_cast<double>(weight));
    if (!layout_.differentiates) return;
    C* gradient = in_.hidden_gradient + row * in_.width;
    std::fill_n(gradient, in_.width, C{0});
    if (weight == 0) return factors_.leave_out(first_ + r);
    const C smoothing = static_cast<C>(in_.smoothing);
    add_row(scale_[r], scratch_.sums + r * in_.width, gradient);
    add_row(-weight * (1 - smoothing), in_.weight + in_.labels[row] * in_.width, gradient);
    if (smoothing != 0) add_row(-weight * smoothing, scratch_.mean, gradient);
  }

  void leave_loss(int64_t r, int64_t row, double weight) const {
    const double log_sum =
        static_cast<double>(largest_[r]) + std::log(static_cast<double>(sum_[r]));
    const double nll = log_sum - static_cast<double>(label_score_[r]);
    double average = mean_bias_;
    const C* from = factors_.hidden_row(first_ + r);
    for (int64_t i = 0; i < in_.width; ++i)
      average += static_cast<double>(from[i]) * scratch_.mean[i];
    in_.nll[row] = weight * nll;
    in_.loss[row] = weight * ((1 - in_.smoothing) * nll + in_.smoothing * (log_sum - average)) +
                    static_cast<double>(divergence_[r]);
  }
  double mean_bias() const {
    double sum = 0;
    for (int64_t v = 0; in_.bias != nullptr && v < in_.classes; ++v) sum += in_.bias[v];
    return sum / static_cast<double>(in_.classes);
  }

  double mean_bias_ = 0;
  int64_t first_ = 0, count_ = 0;  // rows of the item, from the chunk's first
  C largest_[Layout::kRows], sum_[Layout::kRows], label_score_[Layout::kRows];
  C scale_[Layout::kRows];       // what makes gradients of what the tiles hold
  C divergence_[Layout::kRows];  // from the partner, times its weight in the loss
};

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_LOSS_ROWS_INL_H
