// What the products of the loss take: numbers where they lie, or copies as pairs of BFloat16.
#if defined(HEADWISE_LOSS_FACTORS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_LOSS_FACTORS_INL_H
#undef HEADWISE_LOSS_FACTORS_INL_H
#else
#define HEADWISE_LOSS_FACTORS_INL_H
#endif

#include <algorithm>

#include "csrc/kernels/cpu/pack-inl.h"
#include "csrc/kernels/linear_cross_entropy/cpu/layout.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename F>
class LossFactors {
  using C = Sum<F>;
  using Layout = LossLayout<C>;
  static constexpr int64_t kPanel = Layout::kPanel;

 public:
  LossFactors(const LinearCrossEntropyParams<C>& params, const LossLayout<C>& layout,
              const LossWorkspace<F>& work, const LossScratch<F>& scratch)
      : in_(params), layout_(layout), work_(work), scratch_(scratch) {}

  // A product's blocks are two vectors wide here.
  static int64_t block_columns() { return 2 * lanes<C>(); }
  // Steps of a product that is `numbers` deep.
  static int64_t depth(int64_t numbers) { return divide_up(numbers, kNumbers<F>); }

  // Transposes the rows of one panel of the weights. `none`: what stands for a row past the last.
  void pack_weights(int64_t panel, const C* const* rows) const {
    const int64_t columns = block_columns();
    F* const to = work_.transposed + panel * kPanel * depth(in_.width);
    if constexpr (kIsPair<F>) {
      for (int64_t v = 0; v < kPanel; ++v) {
        pair_row(rows[v], in_.width, scratch_.row_pairs + v * depth(in_.width));
      }
      for (int64_t v = 0; v < kPanel; v += columns) {
        const int64_t at = v * depth(in_.width);
        transpose_pairs(scratch_.row_pairs + at, columns, depth(in_.width), to + at);
      }
      if (!layout_.differentiates) return;
      for (int64_t v = 0; v < kPanel; v += 2) {
        pair_rows(rows[v], rows[v + 1], work_.weights + (panel * kPanel + v) / 2 * in_.width);
      }
    } else {
      for (int64_t v = 0; v < kPanel; v += columns) {
        pack_transposed<C>({rows + v, columns, in_.width, 1, 0}, to + v * in_.width);
      }
    }
  }

  // From now on the rows begin … begin + rows - 1, and of these first … first + count - 1.
  void set_chunk(int64_t begin, int64_t rows) {
    chunk_ = begin;
    chunk_rows_ = rows;
  }
  void set_rows(int64_t first, int64_t count) {
    first_ = first;
    count_ = count;
    if constexpr (kIsPair<F>) {
      for (int64_t r = 0; r < count; ++r) {
        pair_row(hidden_row(first + r), in_.width, scratch_.row_pairs + r * depth(in_.width));
      }
    }
  }
  const C* hidden_row(int64_t r) const { return in_.hidden + (chunk_ + r) * in_.width; }

  // scores = hidden . transposed, of row r of the item and columns v … of a panel
  LeftFactor<F> hidden(int64_t r) const {
    if constexpr (kIsPair<F>) {
      return {scratch_.row_pairs + r * depth(in_.width), depth(in_.width), 1};
    } else {
      return {hidden_row(first_ + r), in_.width, 1};
    }
  }
  RightFactor<F> transposed(int64_t panel, int64_t v) const {
    return {work_.transposed + (panel * kPanel + v) * depth(in_.width), block_columns()};
  }
  // kPanel numbers of row r of the item; the next row follows.
  C* scores(int64_t panel, int64_t r) const {
    if constexpr (kIsPair<F>) {
      return scratch_.tile + (panel % kTilePanels * Layout::kRows + r) * kPanel;
    } else {
      return exponentials(panel, first_ + r);
    }
  }

  // Makes factors of a panel's exponentials.
  void pack_exponentials(int64_t panel) const {
    if constexpr (kIsPair<F>) {
      if (!layout_.differentiates) return;
      for (int64_t r = 0; r < count_; r += 2) {
        const C* one = scores(panel, r);
        const C* other = r + 1 < count_ ? one + kPanel : nullptr;
        pair_row(one, kPanel, tile_pairs(panel, r));
        if (other != nullptr) pair_row(other, kPanel, tile_pairs(panel, r + 1));
        const Tag<C> d;
        for (int64_t v = 0; v < kPanel; v += lanes<C>()) {
          pair_vectors(hn::LoadU(d, one + v),
                       other == nullptr ? hn::Zero(d) : hn::LoadU(d, other + v),
                       exponentials(panel, first_ + r) + v);
        }
      }
    }
  }

  // sums = exponentials . weights, of row r of the item and the columns i …
  LeftFactor<F> row_exponentials(int64_t panel, int64_t r) const {
    if constexpr (kIsPair<F>) {
      return {tile_pairs(panel, r), kPanel / 2, 1};
    } else {
      return {scores(panel, r), kPanel, 1};
    }
  }
  RightFactor<F> weights(int64_t panel, int64_t i) const {
    if constexpr (kIsPair<F>) {
      return {work_.weights + panel * kPanel / 2 * in_.width + i, in_.width};
    } else {
      return {in_.weight + panel * kPanel * in_.width + i, in_.width};
    }
  }

  // Whatever row r of the chunk holds, NaN too, must not reach the classes.
  void leave_out(int64_t r) const {
    for (int64_t panel = 0; layout_.differentiates && panel < layout_.panels; ++panel) {
      F* const row = exponentials(panel, r);
      if constexpr (kIsPair<F>) {
        for (int64_t v = 0; v < kPanel; ++v) row[v].bits &= r % 2 == 0 ? 0xFFFF0000u : 0xFFFFu;
      } else {
        std::fill_n(row, kPanel, C{0});
      }
    }
  }

  // Hidden rows of the chunk times their factors, so that exponentials times them are gradients:
  // panels of two vectors.
  void pack_hidden(const C* row_factors) const {
    const int64_t columns = block_columns(), rows = depth(chunk_rows_);
    for (int64_t r = 0; r < chunk_rows_; r += kNumbers<F>) {
      for (int64_t i = 0; i < in_.width; i += lanes<C>()) {
        const int64_t stride = std::min(columns, in_.width - i / columns * columns);
        F* const to =
            scratch_.packed + i / columns * columns * rows + r / kNumbers<F> * stride + i % columns;
        const Tag<C> d;
        if constexpr (kIsPair<F>) {
          const bool pairs = r + 1 < chunk_rows_;
          pair_vectors(scaled(row_factors, r, i),
                       pairs ? scaled(row_factors, r + 1, i) : hn::Zero(d), to);
        } else {
          hn::StoreU(scaled(row_factors, r, i), d, to);
        }
      }
    }
  }

  // gradients of the classes v … of a panel = their exponentials . packed hidden rows, from the
  // chunk's row n on and the columns i …
  LeftFactor<F> class_exponentials(int64_t panel, int64_t n, int64_t v) const {
    return {exponentials(panel, n) + v, 1, kPanel};
  }
  RightFactor<F> packed_hidden(int64_t n, int64_t i) const {
    const int64_t wide = std::min(block_columns(), in_.width - i);
    return {scratch_.packed + i * depth(chunk_rows_) + n / kNumbers<F> * wide, wide};
  }
  C exponential(int64_t panel, int64_t n, int64_t v) const {
    const F factor = exponentials(panel, n)[v];
    if constexpr (kIsPair<F>) {
      return float_from_bits(n % 2 == 0 ? factor.bits << 16 : factor.bits & 0xFFFF0000u);
    } else {
      return factor;
    }
  }

 private:
  static constexpr int64_t kTilePanels = Layout::kTile / kPanel;

  F* tile_pairs(int64_t panel, int64_t r) const {
    return scratch_.tile_pairs + (panel % kTilePanels * Layout::kRows + r) * (kPanel / 2);
  }
  // Of row r of the chunk, or of the pair of rows it belongs to.
  F* exponentials(int64_t panel, int64_t r) const {
    return work_.exponentials + (panel * layout_.chunk / kNumbers<F> + r / kNumbers<F>)*kPanel;
  }
  // A factor of 0 is a row left out, whatever it holds.
  HWY_INLINE Vec<C> scaled(const C* row_factors, int64_t r, int64_t i) const {
    const Tag<C> d;
    if (row_factors[r] == 0) return hn::Zero(d);
    return hn::Mul(hn::Set(d, row_factors[r]), hn::LoadU(d, hidden_row(r) + i));
  }
  void pair_rows(const C* one, const C* other, F* to) const {
    const Tag<C> d;
    for (int64_t i = 0; i < in_.width; i += lanes<C>()) {
      pair_vectors(hn::LoadU(d, one + i), hn::LoadU(d, other + i), to + i);
    }
  }

  const LinearCrossEntropyParams<C>& in_;
  const LossLayout<C>& layout_;
  const LossWorkspace<F>& work_;
  const LossScratch<F>& scratch_;
  int64_t chunk_ = 0, chunk_rows_ = 0, first_ = 0, count_ = 0;
};

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_LOSS_FACTORS_INL_H
