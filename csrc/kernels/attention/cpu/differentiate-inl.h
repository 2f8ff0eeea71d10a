// Weights and score gradients of one tile, for the gradients of inputs and bias alike.
#if defined(HEADWISE_ATTENTION_DIFFERENTIATE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_DIFFERENTIATE_INL_H
#undef HEADWISE_ATTENTION_DIFFERENTIATE_INL_H
#else
#define HEADWISE_ATTENTION_DIFFERENTIATE_INL_H
#endif

#include <algorithm>

#include "csrc/kernels/attention/cpu/backward_layout.h"
#include "csrc/kernels/attention/cpu/gradient-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename T>
class Differentiator {
  using C = Compute<T>;

  const BackwardParams<T>& in_;
  BackwardBuffers<T>& buffers_;
  const GradientFactors<C> factors_;

 public:
  Differentiator(const BackwardParams<T>& params, BackwardBuffers<T>& buffers,
                 GradientFactors<C> factors)
      : in_(params), buffers_(buffers), factors_(factors) {}

  // Turns to a block of keys; nothing is packed yet.
  void set_keys(const KeyPlace& place) {
    tile_.b = place.b;
    block_ = place;
    queries_ = in_.sequences.query(place.b);
    whole_rows_ = in_.sequences.key(place.b).length <= kTileKeys;
    packed_ = 0;
    key_list = key_rows(in_, in_.key, place, in_.width, buffers_.key_rows);
    value_list_ = key_rows(in_, in_.value, place, in_.value_width, buffers_.value_rows);
  }

  // Takes a tile of queries and output gradients.
  void set_rows(const TileRows& rows) {
    tile_.rows = rows;
    query_list = query_rows(in_.query, tile_, queries_, in_.width, buffers_.query_rows);
    gradient_list =
        query_rows(in_.output_gradient, tile_, queries_, in_.value_width, buffers_.gradient_rows);
    const bool finite_queries = pack_transposed<T>(query_list, buffers_.transposed_queries);
    queries = right_operand(query_list, finite_queries, buffers_.queries, unusual_queries);
    const bool finite = pack_transposed<T>(gradient_list, buffers_.transposed_gradients);
    gradients = right_operand(gradient_list, finite, buffers_.gradients, unusual_gradients);
    for (int64_t r = 0; r < rows.count; ++r) start_row(r);
  }

  // Fills weights (with dropout's zeros, rounded) and score gradients of the tile of keys that
  // starts at `offset` in the block. False if its rows see none of them.
  bool differentiate(int64_t offset) {
    tile_.first_key = block_.first + offset;
    tile_.keys = std::min(kTileKeys, block_.count - offset);
    look(in_, tile_, buffers_.elements, view);
    if (view.empty()) return false;
    pack_keys(offset + tile_.keys);
    const size_t n = static_cast<size_t>(offset / kTileKeys);
    score_product<C>(view, left_keys_[n], buffers_.transposed_queries, in_.width, buffers_.weights);
    score_product<C>(view, left_values_[n], buffers_.transposed_gradients, in_.value_width,
                     buffers_.score_gradients);
    if (drops()) draw_tile(in_.dropout, in_.heads, tile_, view.all(), buffers_.words);
    for_each_vector<T>(view.rows(), [&](auto d, int64_t r) { finish_rows(d, r); });
    return true;
  }

  int64_t width() const { return round_up_to_vectors<C>(in_.width); }
  int64_t value_width() const { return round_up_to_vectors<C>(in_.value_width); }
  // Keys of the tile at `offset` as the right factor.
  Operand<C> keys(int64_t offset) const { return right_keys_[offset / kTileKeys]; }

  TileView view;
  Operand<C> queries{}, gradients{};  // right factors
  RowList<T> query_list{}, gradient_list{}, key_list{};
  UnusualRows unusual_queries{0, buffers_.unusual_queries};
  UnusualRows unusual_gradients{0, buffers_.unusual_gradients};
  UnusualRows unusual_keys{0, buffers_.unusual_keys};  // counted from the start of the block

 private:
  bool drops() const { return in_.dropout.threshold != 0; }
  // Whether a row may be kept from seeing a key that exists.
  bool hides() const {
    return has_elements(in_) || in_.rule.causal || in_.rule.left >= 0 || in_.rule.right >= 0;
  }

  void start_row(int64_t r) {
    const int64_t h = tile_.rows.head(r), i = queries_.first + tile_.rows.row(r);
    buffers_.lse[r] = *in_.lse.at(tile_.b, h, i);
    C shift = 0;
    if (!whole_rows_) shift = output_product(r, in_.output.at(tile_.b, h, i));
    if (in_.lse_gradient.data != nullptr) shift -= *in_.lse_gradient.at(tile_.b, h, i);
    buffers_.shift[r] = shift;
  }

  // output . g, which is sum(P W) over all keys.
  C output_product(int64_t r, const T* output) const {
    const Tag<C> d;
    const int64_t step = hn::Lanes(d), column = in_.output.column;
    const T* gradient = buffers_.gradient_rows[r];
    const int64_t gradient_column = gradient_list.column_stride;
    Vec<C> sum = hn::Zero(d);
    int64_t i = 0;
    for (; i + step <= in_.value_width; i += step) {
      sum = hn::MulAdd(load_strided(output + i * column, column),
                       load_strided(gradient + i * gradient_column, gradient_column), sum);
    }
    C rest = 0;
    for (; i < in_.value_width; ++i) {
      rest += to_compute(output[i * column]) * to_compute(gradient[i * gradient_column]);
    }
    return sum_of_lanes<C>(sum) + rest;
  }

  // Packs the tiles of the block up to `end`, those that are not yet.
  void pack_keys(int64_t end) {
    if (packed_ == 0) unusual_keys.count = 0;
    for (; packed_ < end; packed_ += kTileKeys) {
      const int64_t count = std::min(kTileKeys, block_.count - packed_);
      const RowList<T> keys = key_list.part(packed_, count);
      const size_t n = static_cast<size_t>(packed_ / kTileKeys);
      left_keys_[n] = left_operand(keys, buffers_.keys + packed_ * width());
      left_values_[n] =
          left_operand(value_list_.part(packed_, count), buffers_.values + packed_ * value_width());
      UnusualRows unusual{0, unusual_keys.index + unusual_keys.count};
      right_keys_[n] =
          right_operand(keys, !hides(), buffers_.usual_keys + packed_ * width(), unusual);
      for (int64_t u = 0; u < unusual.count; ++u) unusual.index[u] += static_cast<int32_t>(packed_);
      unusual_keys.count += unusual.count;
    }
  }

  // The rows of one vector.
  template <class D>
  void finish_rows(D d, int64_t r) {
    const GradientColumn<T, D> column{
        column_of(d, in_, view, r, buffers_.weights, buffers_.elements),
        {drops() ? buffers_.words + r : nullptr, in_.dropout.threshold},
        buffers_.score_gradients + r,
        hn::Set(d, static_cast<C>(dropout_scale(in_.dropout))),
        shift_of(hn::LoadU(d, buffers_.lse + r)),
        hn::LoadU(d, buffers_.shift + r),
        factors_};
    clear_around(d, buffers_.weights + r, column.column.range, view.all());
    clear_around(d, buffers_.score_gradients + r, column.column.range, view.all());
    if (whole_rows_) {
      column.run_whole();
    } else {
      column.run_part();
    }
  }

  TilePlace tile_;
  KeyPlace block_;
  Span queries_;
  RowList<T> value_list_{};
  static constexpr int64_t kTiles = BackwardLayout::kBlock / kTileKeys;
  Operand<C> left_keys_[kTiles] = {}, left_values_[kTiles] = {}, right_keys_[kTiles] = {};
  int64_t packed_ = 0;
  bool whole_rows_ = false;  // one tile holds all keys
};

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_ATTENTION_DIFFERENTIATE_INL_H
