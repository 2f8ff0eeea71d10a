// What all items of the loss know.
#if defined(HEADWISE_LOSS_ITEM_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_LOSS_ITEM_INL_H
#undef HEADWISE_LOSS_ITEM_INL_H
#else
#define HEADWISE_LOSS_ITEM_INL_H
#endif

#include <algorithm>

#include "csrc/kernels/linear_cross_entropy/cpu/factors-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename F>
class LossItem {
 public:
  LossItem(const LossItem&) = delete;  // its parts refer to each other
  LossItem& operator=(const LossItem&) = delete;

 protected:
  using C = Sum<F>;
  using Layout = LossLayout<C>;
  static constexpr int64_t kPanel = Layout::kPanel;

  LossItem(const LinearCrossEntropyParams<C>& params, const Memory& memory)
      : in_(params),
        layout_(params),
        work_(layout_, memory.workspace),
        scratch_(layout_, memory.scratch),
        factors_(in_, layout_, work_, scratch_) {}

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

  static int64_t first_panel(int64_t tile) { return tile * Layout::kTile / kPanel; }
  int64_t panels_end(int64_t tile) const {
    return std::min((tile + 1) * Layout::kTile / kPanel, layout_.panels);
  }

  const LinearCrossEntropyParams<C>& in_;
  const LossLayout<C> layout_;
  const LossWorkspace<F> work_;
  const LossScratch<F> scratch_;
  LossFactors<F> factors_;
  int64_t chunk_ = 0, chunk_rows_ = 0;  // first row, and how many
};

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_LOSS_ITEM_INL_H
