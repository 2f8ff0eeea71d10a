// The two products of the forward pass: scores = K Q^T and output += W V. In the compute type; or,
// for BFloat16 on a processor that multiplies pairs of them, without conversion: two numbers of the
// width, or of following keys, are one step.
#if defined(HEADWISE_ATTENTION_FORWARD_PRODUCTS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_FORWARD_PRODUCTS_INL_H
#undef HEADWISE_ATTENTION_FORWARD_PRODUCTS_INL_H
#else
#define HEADWISE_ATTENTION_FORWARD_PRODUCTS_INL_H
#endif

#include <algorithm>

#include "csrc/kernels/attention/cpu/forward_layout.h"
#include "csrc/kernels/attention/cpu/pack_pairs-inl.h"
#include "csrc/kernels/attention/cpu/scores-inl.h"
#include "csrc/kernels/cpu/instruction_set.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename T>
class ForwardProducts {
  using C = Compute<T>;
  static constexpr bool kMayPair = HEADWISE_PAIR_INSTRUCTIONS && std::is_same_v<T, BFloat16>;

 public:
  ForwardProducts(const ForwardParams<T>& params, const ForwardBuffers<T>& buffers)
      : in_(params), buffers_(buffers), pairs_(kMayPair && multiplies_pairs()) {}

  void set_queries(const RowList<T>& list) {
    if constexpr (kMayPair) {
      if (pairs_) return pack_transposed_pairs(list, buffers_.query_pairs, queries<BFloat16Pair>());
    }
    pack_transposed<T>(list, queries<C>());
  }

  // Into the buffer of scores. The rows `next`, one a key, are asked for.
  void scores(const TileView& view, const RowList<T>& keys, const RowsAhead& next) {
    if constexpr (kMayPair) {
      if (pairs_) {
        return score_product<BFloat16Pair>(view, left_pairs(keys, buffers_.keys),
                                           queries<BFloat16Pair>(), divide_up(in_.width, 2),
                                           buffers_.scores, next);
      }
    }
    score_product<C>(view, left_operand(keys, buffers_.keys), queries<C>(), in_.width,
                     buffers_.scores, next);
  }

  // Takes the values of some keys of a tile, from an even one on; the scores have become weights.
  void set_values(const TileView& view, const RowList<T>& tile, const KeyRange& keys,
                  bool may_be_zero) {
    first_ = keys.begin;
    list_ = tile.part(keys.begin, keys.end - keys.begin);
    unusual_.count = 0;
    if constexpr (kMayPair) {
      in_place_ = pairs_ && !may_be_zero && reads_in_place(view, list_);
      // Rows that are not finite take the way that sets them apart.
      paired_ = in_place_ ||
                (pairs_ && (pack_value_pairs(list_, value_width(), pairs_of(buffers_.values)) ||
                            !may_be_zero));
      if (paired_) {
        const KeyRange seen{std::max(keys.begin, view.all().begin), keys.end};
        return pair_weights(seen, view.rows(), kTileRows, buffers_.scores);
      }
    }
    values_ = right_operand(list_, !may_be_zero, buffers_.values, unusual_);
  }

  // Adds some of these keys to the sums of rows r … r + rows - 1, `columns` of them at a time.
  void add_values(int64_t r, int64_t rows, const KeyRange& keys, int64_t columns, C* output,
                  int64_t stride, Store store, const RowsAhead& next) const {
    if constexpr (kMayPair) {
      if (paired_) return add_pairs(r, rows, keys, columns, output, stride, store, next);
    }
    const LeftFactor<C> weights{buffers_.scores + keys.begin * kTileRows + r, 1, kTileRows};
    const RightFactor<C> values{values_.row(keys.begin - first_), values_.stride};
    multiply(weights, values, keys, next, rows, columns, output, stride, store);
    add_unusual_rows<T>(unusual_, list_, keys.begin - first_, keys.end - keys.begin, rows, weights,
                        output, stride);
  }

 private:
#if HEADWISE_PAIR_INSTRUCTIONS
  // A few query rows are done with the values sooner than these could be copied.
  static bool reads_in_place(const TileView& view, const RowList<BFloat16>& list) {
    return view.rows() <= most_rows(2) && list.column_stride == 1 && list.row_stride != 0 &&
           list.width % Interleaver::kNumbers == 0 && list.count % 2 == 0;
  }
  void add_pairs(int64_t r, int64_t rows, const KeyRange& keys, int64_t columns, C* output,
                 int64_t stride, Store store, const RowsAhead& next) const {
    const KeyRange pairs{keys.begin / 2, divide_up(keys.end, 2)};
    const LeftFactor<BFloat16Pair> weights{pairs_of(buffers_.scores) + pairs.begin * kTileRows + r,
                                           1, kTileRows};
    const RowsAhead both{next.at, 2 * next.row_bytes, next.rows / 2};
    const int64_t from = pairs.begin - first_ / 2;
    if (in_place_) {
      const RowPairs values{list_.rows[2 * from], list_.row_stride};
      return multiply(weights, values, pairs, both, rows, Interleaver::kNumbers, output, stride,
                      store);
    }
    const RightFactor<BFloat16Pair> values{pairs_of(buffers_.values) + from * value_width(),
                                           value_width()};
    multiply(weights, values, pairs, both, rows, columns, output, stride, store);
  }
#endif

  template <typename F, class Right>
  void multiply(const LeftFactor<F>& weights, const Right& values, const KeyRange& steps,
                const RowsAhead& next, int64_t rows, int64_t columns, C* output, int64_t stride,
                Store store) const {
    const int64_t depth = steps.end - steps.begin;
    if (next.at == nullptr) {
      product(rows, value_width(), columns, weights, values, depth, output, stride, store);
    } else {
      product<true>(rows, value_width(), columns, weights, values, depth, output, stride, store,
                    {next.at + steps.begin * next.row_bytes, next.row_bytes});
    }
  }

  template <typename F>
  F* queries() const {
    return reinterpret_cast<F*>(buffers_.transposed_queries);
  }
  int64_t value_width() const { return round_up_to_vectors<C>(in_.value_width); }

  const ForwardParams<T>& in_;
  const ForwardBuffers<T>& buffers_;
  const bool pairs_;
  // Of the values taken last:
  bool paired_ = false, in_place_ = false;
  int64_t first_ = 0;
  RowList<T> list_{};
  Operand<C> values_{};
  UnusualRows unusual_{0, buffers_.unusual};
};

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_ATTENTION_FORWARD_PRODUCTS_INL_H
