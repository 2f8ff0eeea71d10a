// Output layer, label-smoothed cross-entropy and their gradients in one sweep over the classes.
//   with p = softmax(z), t the smoothed target, w the weight of a row:
//   dHidden = w (p - t) W,   dW = sum over rows of w (p - t)^T hidden,   dBias = its column sums
// The target's part is of rank one and added apart, so that the products work on exponentials
// alone; exponentials are left relative to the largest score their tile knew of.
#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "csrc/kernels/linear_cross_entropy/cpu/linear_cross_entropy.cpp"
#include <hwy/foreach_target.h>
// Highway's headers must follow foreach_target.h.
#include "csrc/kernels/cpu/instruction_set.h"
#include "csrc/kernels/linear_cross_entropy/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// The classes' side: factors made of the weights, and gradients of the weights.
template <typename F>
class LossClasses : private LossItem<F> {
  using Base = LossItem<F>;
  using Base::kPanel;
  using typename Base::C;
  using typename Base::Layout;

 public:
  LossClasses(const LinearCrossEntropyParams<C>& params, const Memory& memory)
      : Base(params, memory) {}

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
  using Base::add_row;
  using Base::block_columns;
  using Base::block_rows;
  using Base::chunk_;
  using Base::chunk_rows_;
  using Base::factors_;
  using Base::in_;
  using Base::layout_;
  using Base::row_weight;
  using Base::scratch_;
  using Base::set_chunk;
  using Base::work_;

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
};

template <typename F>
void loss_of(const LinearCrossEntropyParams<Sum<F>>& params, int64_t phase, int64_t item,
             const Memory& memory) {
  const LossLayout<Sum<F>> layout(params);
  if (phase == 0) {
    LossClasses<F>(params, memory).pack_weights(item);
  } else if (layout.adds_to_classes(phase)) {
    LossClasses<F>(params, memory).own_classes(layout.chunk_of(phase), item);
  } else {
    LossRows<F>(params, memory).own_rows(layout.chunk_of(phase), item);
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
    const int64_t products = (layout.differentiates ? 2 : 1) + (params.consistency != 0 ? 1 : 0);
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
