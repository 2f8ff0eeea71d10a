// Output layer, label-smoothed cross-entropy and their gradients in one sweep over the classes.
//   with p = softmax(z), t the smoothed target, w the weight of a row:
//   dHidden = w (p - t) W,   dW = sum over rows of w (p - t)^T hidden,   dBias = its column sums
// The target's part is of rank one and added apart, so that the products work on exponentials
// alone; exponentials are left relative to the largest score their tile knew of.
#include <algorithm>
#include <cmath>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "csrc/kernels/linear_cross_entropy/cpu/linear_cross_entropy.cpp"
#include <hwy/foreach_target.h>
// Highway's headers must follow foreach_target.h.
#include "csrc/kernels/cpu/instruction_set.h"
#include "csrc/kernels/linear_cross_entropy/cpu/factors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename F>
class LossItem {
  using C = Sum<F>;
  using Layout = LossLayout<C>;
  static constexpr int64_t kPanel = Layout::kPanel;

 public:
  LossItem(const LinearCrossEntropyParams<C>& params, const Memory& memory)
      : in_(params),
        layout_(params),
        work_(layout_, memory.workspace),
        scratch_(layout_, memory.scratch),
        factors_(in_, layout_, work_, scratch_) {}

  // Transposes one panel of the weights and sums its rows.
  void pack_weights(int64_t panel) {
    const int64_t first = panel * kPanel, count = std::min(kPanel, in_.classes - first);
    C* const none = scratch_.mean;  // a row of zeros for classes that do not exist
    std::fill_n(none, in_.width, C{0});
    for (int64_t v = 0; v < kPanel; ++v) {
      scratch_.rows[v] = v < count ? in_.weight + (first + v) * in_.width : none;
    }
    factors_.pack_weights(panel, scratch_.rows);
    C* sums = work_.panel_sums + panel * in_.width;
    std::fill_n(sums, in_.width, C{0});
    for (int64_t v = 0; v < count; ++v) add_row(C{1}, scratch_.rows[v], sums);
  }

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
    for (int64_t tile = 0; tile < layout_.tiles; ++tile) {
      score_tile(tile);
      for (int64_t r = 0; r < count_; ++r) exponentiate(tile, r);
      for (int64_t panel = first_panel(tile); panel < panels_end(tile); ++panel) {
        factors_.pack_exponentials(panel);
      }
      if (layout_.differentiates) add_tile_to_rows(tile);
    }
    for (int64_t r = 0; r < count_; ++r) finish_row(r);
  }

  // Gradients of classes, from all rows of a chunk.
  void own_classes(int64_t chunk, int64_t tile) {
    set_chunk(chunk);
    set_row_factors(tile);
    factors_.pack_hidden(scratch_.row_factors);
    const int64_t begin = tile * Layout::kTile;
    const int64_t end = std::min(begin + Layout::kTile, in_.classes);
    for (int64_t v = begin; v < end; v += kPanel) add_rows_to_panel(v, std::min(kPanel, end - v));
    add_targets(begin, end);
  }

 private:
  static int64_t block_columns() { return LossFactors<F>::block_columns(); }
  static int64_t block_rows(int64_t rows) { return even_share(rows, most_rows(2)); }

  void set_chunk(int64_t chunk) {
    chunk_ = chunk * layout_.chunk;
    chunk_rows_ = std::min(layout_.chunk, in_.rows - chunk_);
    factors_.set_chunk(chunk_, chunk_rows_);
  }
  bool is_counted(int64_t row) const {
    return in_.labels[row] >= 0 && in_.labels[row] < in_.classes;
  }
  C row_weight(int64_t row) const {
    if (!is_counted(row)) return 0;
    return in_.row_weight == nullptr ? C{1} : in_.row_weight[row];
  }

  void add_row(C factor, const C* from, C* to) const {
    const Tag<C> d;
    const Vec<C> by = hn::Set(d, factor);
    for (int64_t i = 0; i < in_.width; i += lanes<C>()) {
      hn::StoreU(hn::MulAdd(by, hn::LoadU(d, from + i), hn::LoadU(d, to + i)), d, to + i);
    }
  }

  void average_weights() {
    std::fill_n(scratch_.mean, in_.width, C{0});
    const C share = C{1} / static_cast<C>(in_.classes);
    for (int64_t panel = 0; panel < layout_.panels; ++panel) {
      add_row(share, work_.panel_sums + panel * in_.width, scratch_.mean);
    }
  }

  static int64_t first_panel(int64_t tile) { return tile * Layout::kTile / kPanel; }
  int64_t panels_end(int64_t tile) const {
    return std::min((tile + 1) * Layout::kTile / kPanel, layout_.panels);
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

  // Scores of one row become exp(score - largest so far); what has been summed is lowered to it.
  void exponentiate(int64_t tile, int64_t r) {
    const Tag<C> d;
    const int64_t begin = first_panel(tile), end = panels_end(tile);
    const int64_t label = in_.labels[chunk_ + first_ + r];
    if (label >= begin * kPanel && label < std::min(end * kPanel, in_.classes)) {
      label_score_[r] = factors_.scores(label / kPanel, r)[label % kPanel];
    }
    Vec<C> top = minus_infinity(d);
    for (int64_t panel = begin; panel < end; ++panel) {
      const C* row = factors_.scores(panel, r);
      for (int64_t v = 0; v < kPanel; v += lanes<C>()) top = hn::Max(top, hn::LoadU(d, row + v));
    }
    const C before = largest_[r], now = std::max(before, largest_lane<C>(top));
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
    work_.largest[first_ + r] = largest_[r];
    work_.factor[first_ + r] = weight == 0 ? C{0} : weight / sum_[r];
    in_.loss[row] = in_.nll[row] = 0;
    if (weight != 0) leave_loss(r, row, static_cast<double>(weight));
    if (!layout_.differentiates) return;
    C* gradient = in_.hidden_gradient + row * in_.width;
    std::fill_n(gradient, in_.width, C{0});
    if (weight == 0) return factors_.leave_out(first_ + r);
    const C smoothing = static_cast<C>(in_.smoothing);
    add_row(weight / sum_[r], scratch_.sums + r * in_.width, gradient);
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
    in_.loss[row] = weight * ((1 - in_.smoothing) * nll + in_.smoothing * (log_sum - average));
  }
  double mean_bias() const {
    double sum = 0;
    for (int64_t v = 0; in_.bias != nullptr && v < in_.classes; ++v) sum += in_.bias[v];
    return sum / static_cast<double>(in_.classes);
  }

  // What turns exponentials of a tile into probabilities times row weights.
  void set_row_factors(int64_t tile) const {
    const Tag<C> d;
    for (int64_t r = 0; r < chunk_rows_; ++r) {
      const C lower = work_.reference[tile * layout_.chunk + r] - work_.largest[r];
      // A factor of 0 is a row left out, whatever its scores were.
      const C factor = work_.factor[r];
      scratch_.row_factors[r] =
          factor == 0 ? C{0} : factor * hn::GetLane(exp_score(hn::Set(d, lower)));
    }
  }

  void add_rows_to_panel(int64_t first, int64_t count) {
    constexpr int64_t kDepth = 128;  // rows whose part of a panel stays in the L1 cache
    const int64_t share = block_rows(count), columns = block_columns(), panel = first / kPanel;
    for (int64_t n = 0; n < chunk_rows_; n += kDepth) {
      const int64_t depth = LossFactors<F>::depth(std::min(kDepth, chunk_rows_ - n));
      const Store store = chunk_ == 0 && n == 0 ? Store::kWrite : Store::kAdd;
      for (int64_t i = 0; i < in_.width; i += columns) {
        const int64_t wide = std::min(columns, in_.width - i);
        const RightFactor<F> right = factors_.packed_hidden(n, i);
        for (int64_t v = 0; v < count; v += share) {
          product_panel(std::min(share, count - v), wide, factors_.class_exponentials(panel, n, v),
                        right, depth, in_.weight_gradient + (first + v) * in_.width + i, in_.width,
                        store);
        }
      }
    }
    if (in_.bias_gradient == nullptr) return;
    for (int64_t v = 0; v < count; ++v) {
      C sum = 0;
      for (int64_t n = 0; n < chunk_rows_; ++n)
        sum += scratch_.row_factors[n] * factors_.exponential(panel, n, v);
      C& gradient = in_.bias_gradient[first + v];
      gradient = chunk_ == 0 ? sum : gradient + sum;
    }
  }

  // The targets' part of the gradients of classes begin … end - 1.
  void add_targets(int64_t begin, int64_t end) {
    const C smoothing = static_cast<C>(in_.smoothing);
    C* const hidden_sum = scratch_.mean;
    std::fill_n(hidden_sum, in_.width, C{0});
    C weight_sum = 0;
    for (int64_t r = 0; r < chunk_rows_; ++r) {
      const C weight = row_weight(chunk_ + r);
      if (weight == 0) continue;
      const int64_t label = in_.labels[chunk_ + r];
      if (smoothing != 0) add_row(weight, factors_.hidden_row(r), hidden_sum);
      weight_sum += weight;
      if (label < begin || label >= end) continue;
      add_row(-weight * (1 - smoothing), factors_.hidden_row(r),
              in_.weight_gradient + label * in_.width);
      if (in_.bias_gradient != nullptr) in_.bias_gradient[label] -= weight * (1 - smoothing);
    }
    if (smoothing == 0) return;
    const C share = smoothing / static_cast<C>(in_.classes);
    for (int64_t v = begin; v < end; ++v) {
      add_row(-share, hidden_sum, in_.weight_gradient + v * in_.width);
      if (in_.bias_gradient != nullptr) in_.bias_gradient[v] -= share * weight_sum;
    }
  }

  const LinearCrossEntropyParams<C>& in_;
  const LossLayout<C> layout_;
  const LossWorkspace<F> work_;
  const LossScratch<F> scratch_;
  LossFactors<F> factors_;
  double mean_bias_ = 0;
  int64_t chunk_ = 0, chunk_rows_ = 0;  // first row, and how many
  int64_t first_ = 0, count_ = 0;       // rows of the item, from the chunk's first
  C largest_[Layout::kRows], sum_[Layout::kRows], label_score_[Layout::kRows];
};

template <typename F>
void loss_of(const LinearCrossEntropyParams<Sum<F>>& params, int64_t phase, int64_t item,
             const Memory& memory) {
  const LossLayout<Sum<F>> layout(params);
  LossItem<F> work(params, memory);
  if (phase == 0) {
    work.pack_weights(item);
  } else if (layout.adds_to_classes(phase)) {
    work.own_classes(layout.chunk_of(phase), item);
  } else {
    work.own_rows(layout.chunk_of(phase), item);
  }
}

void run_loss(ElementType type, const void* params, int64_t phase, int64_t item,
              const Memory& memory) {
  if (type == ElementType::kDouble) {
    return loss_of<double>(*static_cast<const LinearCrossEntropyParams<double>*>(params), phase,
                           item, memory);
  }
  const auto& floats = *static_cast<const LinearCrossEntropyParams<float>*>(params);
  if (!floats.bfloat16) return loss_of<float>(floats, phase, item, memory);
  (floats.instruction ? loss_of<Pair<true>> : loss_of<Pair<false>>)(floats, phase, item, memory);
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise::kernels {
namespace cpu {
HWY_EXPORT(run_loss);
}  // namespace cpu

template <typename C>
Plan plan(const LinearCrossEntropyParams<C>& params) {
  using Layout = cpu::LossLayout<C>;
  const Layout layout(params);
  size_t scratch = cpu::LossScratch<C>(layout, nullptr).bytes;
  Plan plan{"cpu/linear_cross_entropy", cpu::instruction_set(), {}};
  plan.workspace_bytes = cpu::LossWorkspace<C>(layout, nullptr).bytes;
  if constexpr (std::is_same_v<C, float>) {
    using Factor = cpu::Pair<true>;
    if (params.bfloat16) {
      plan.kernel = params.instruction ? "cpu/linear_cross_entropy, bfloat16 pairs"
                                       : "cpu/linear_cross_entropy, bfloat16 pairs as floats";
      plan.workspace_bytes = cpu::LossWorkspace<Factor>(layout, nullptr).bytes;
      scratch = cpu::LossScratch<Factor>(layout, nullptr).bytes;
    }
  }
  plan.tile = {Layout::kRows, Layout::kTile};
  plan.block = {layout.chunk, params.classes};
  plan.phases.push_back({layout.panels, scratch, Layout::kPanel * params.width});
  for (int64_t chunk = 0; chunk < layout.chunks; ++chunk) {
    const int64_t rows = std::min(layout.chunk, params.rows - chunk * layout.chunk);
    const int64_t products = layout.differentiates ? 2 : 1;
    plan.phases.push_back({cpu::divide_up(rows, Layout::kRows), scratch,
                           Layout::kRows * params.classes * params.width * products});
    if (!layout.differentiates) continue;
    plan.phases.push_back({layout.tiles, scratch, rows * Layout::kTile * params.width});
  }
  return plan;
}

template <typename C>
void run(const LinearCrossEntropyParams<C>& params, size_t phase, const ItemRange& items,
         const Memory& memory) {
  for (int64_t item = items.begin; item < items.end; ++item) {
    HWY_DYNAMIC_DISPATCH(cpu::run_loss)
    (kElementType<C>, &params, static_cast<int64_t>(phase), item, memory);
  }
}

template Plan plan(const LinearCrossEntropyParams<float>&);
template Plan plan(const LinearCrossEntropyParams<double>&);
template void run(const LinearCrossEntropyParams<float>&, size_t, const ItemRange&, const Memory&);
template void run(const LinearCrossEntropyParams<double>&, size_t, const ItemRange&, const Memory&);

}  // namespace headwise::kernels
#endif  // HWY_ONCE
