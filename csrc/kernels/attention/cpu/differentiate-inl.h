// Weights and score gradients of one tile, for the gradients of inputs and bias alike. With P the
// weights, F the dropout factors, g and e the gradients of output and log-sum-exp:
//   W  = F (g V^T)                              gradient of the weights
//   dS = P (W - sum(P W) + e)                   gradient of the scores
// If one tile holds all keys, sum(P W) is taken over it and P is divided by its own sum: the
// rounding of the log-sum-exp then cancels. Otherwise sum(P W) is output . g.
#if defined(HEADWISE_ATTENTION_DIFFERENTIATE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_DIFFERENTIATE_INL_H
#undef HEADWISE_ATTENTION_DIFFERENTIATE_INL_H
#else
#define HEADWISE_ATTENTION_DIFFERENTIATE_INL_H
#endif

#include <algorithm>

#include "csrc/kernels/attention/cpu/backward_layout.h"
#include "csrc/kernels/attention/cpu/dropout-inl.h"
#include "csrc/kernels/attention/cpu/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename T>
class Differentiator {
  using C = Compute<T>;

  const BackwardParams<T>& in_;
  BackwardBuffers<T>& buffers_;

 public:
  Differentiator(const BackwardParams<T>& params, BackwardBuffers<T>& buffers)
      : in_(params), buffers_(buffers) {}

  // Turns to key block `begin` … begin + count - 1 of a group; nothing is packed yet.
  void set_keys(int64_t b, int64_t group, int64_t begin, int64_t count) {
    tile_.b = b;
    first_key_ = begin;
    keys_ = count;
    queries_ = in_.sequences.query(b);
    whole_rows_ = in_.sequences.key(b).length <= kTileKeys;
    packed_ = 0;
    list_key_rows(in_, in_.key, b, group, begin, count, buffers_.key_rows);
    list_key_rows(in_, in_.value, b, group, begin, count, buffers_.value_rows);
  }

  // Packs the tile of queries and output gradients.
  void set_rows(const TileRows& rows) {
    tile_.rows = rows;
    list_query_rows(in_.query, tile_, queries_, buffers_.query_rows);
    list_query_rows(in_.output_gradient, tile_, queries_, buffers_.gradient_rows);
    if (!whole_rows_) list_query_rows(in_.output, tile_, queries_, buffers_.output_rows);
    usual_queries =
        pack(query_list(), width(), buffers_.queries, buffers_.usual_queries, unusual_queries);
    usual_gradients = pack(gradient_list(), value_width(), buffers_.gradients,
                           buffers_.usual_gradients, unusual_gradients);
    for (int64_t r = 0; r < rows.count; ++r) start_row(r);
  }

  // Fills weights (with dropout's zeros, rounded) and score gradients of the tile of keys that
  // starts at `offset` in the block. False if its rows see none of them.
  bool differentiate(int64_t offset) {
    tile_.first_key = first_key_ + offset;
    tile_.keys = std::min(kTileKeys, keys_ - offset);
    look(in_, tile_, buffers_.elements, view);
    if (view.empty()) return false;
    pack_keys(offset + tile_.keys);
    const C* keys = buffers_.transposed_keys + offset * in_.width;
    const C* values = buffers_.transposed_values + offset * in_.value_width;
    score_product<C>(view, {buffers_.queries, width(), 1}, keys, tile_.keys, in_.width,
                     buffers_.weights);
    score_product<C>(view, {buffers_.gradients, value_width(), 1}, values, tile_.keys,
                     in_.value_width, buffers_.score_gradients);
    if (drops()) draw_rows(in_.dropout, in_.heads, tile_, view, buffers_.kept);
    for (int64_t r = 0; r < view.rows; ++r) finish_row(r);
    return true;
  }

  int64_t width() const { return round_up_to_vectors<C>(in_.width); }
  int64_t value_width() const { return round_up_to_vectors<C>(in_.value_width); }
  const TilePlace& tile() const { return tile_; }
  RowList<T> key_list(int64_t offset) const {
    return {buffers_.key_rows + offset, tile_.keys, in_.width, in_.key.column};
  }
  RowList<T> query_list() const {
    return {buffers_.query_rows, tile_.rows.count, in_.width, in_.query.column};
  }
  RowList<T> gradient_list() const {
    return {buffers_.gradient_rows, tile_.rows.count, in_.value_width, in_.output_gradient.column};
  }

  TileView view;
  const C *usual_queries = nullptr, *usual_gradients = nullptr;
  UnusualRows unusual_queries{0, buffers_.unusual_queries};
  UnusualRows unusual_gradients{0, buffers_.unusual_gradients};
  UnusualRows unusual_keys{0, buffers_.unusual_keys};  // counted from the start of the block

 private:
  bool drops() const { return in_.dropout.threshold != 0; }

  static const C* pack(const RowList<T>& list, int64_t padded, C* to, C* usual,
                       UnusualRows& unusual) {
    unusual.count = 0;
    if (pack_rows<T>(list, padded, to)) return to;
    std::copy_n(to, list.count * padded, usual);
    take_out_unusual_rows(list.count, padded, usual, unusual);
    return usual;
  }

  void start_row(int64_t r) {
    const int64_t h = tile_.rows.head(r), i = queries_.first + tile_.rows.row(r);
    buffers_.lse[r] = *in_.lse.at(tile_.b, h, i);
    C shift = 0;
    if (!whole_rows_) {
      const T* output = buffers_.output_rows[r];
      const C* gradient = buffers_.gradients + r * value_width();
      for (int64_t d = 0; d < in_.value_width; ++d) {
        shift += to_compute(output[d * in_.output.column]) * gradient[d];
      }
    }
    if (in_.lse_gradient.data != nullptr) shift -= *in_.lse_gradient.at(tile_.b, h, i);
    buffers_.shift[r] = shift;
  }

  // Packs the tiles of the block up to `end`, those that are not yet.
  void pack_keys(int64_t end) {
    if (packed_ == 0) unusual_keys.count = 0;
    for (; packed_ < end; packed_ += kTileKeys) {
      const int64_t count = std::min(kTileKeys, keys_ - packed_);
      const RowList<T> keys{buffers_.key_rows + packed_, count, in_.width, in_.key.column};
      const RowList<T> values{buffers_.value_rows + packed_, count, in_.value_width,
                              in_.value.column};
      pack_transposed<T>(keys, buffers_.transposed_keys + packed_ * in_.width, buffers_.copies);
      pack_transposed<T>(values, buffers_.transposed_values + packed_ * in_.value_width,
                         buffers_.copies);
      C* rows = buffers_.keys + packed_ * width();
      if (pack_rows<T>(keys, width(), rows)) continue;
      UnusualRows unusual{0, unusual_keys.index + unusual_keys.count};
      take_out_unusual_rows(count, width(), rows, unusual);
      for (int64_t u = 0; u < unusual.count; ++u) unusual.index[u] += static_cast<int32_t>(packed_);
      unusual_keys.count += unusual.count;
    }
  }

  // One row: products become weights and score gradients.
  void finish_row(int64_t r) {
    C* weights = buffers_.weights + r * kTileKeys;
    C* gradients = buffers_.score_gradients + r * kTileKeys;
    const KeyRange& range = view.row[r];
    clear_around(weights, range, view.all);
    clear_around(gradients, range, view.all);
    if (range.begin == range.end) return;
    const C scale = static_cast<C>(in_.scale);
    finish_scores<C>(weights, range, scale,
                     buffers_.elements == nullptr ? nullptr : buffers_.elements + r * kTileKeys);
    const int16_t* kept = drops() ? buffers_.kept + r * kTileKeys : nullptr;
    const KeyRange vectors = whole_vectors<C>(range);
    const C sum = rebuild_weights(weights, gradients, kept, vectors, buffers_.lse[r]);
    C shift = buffers_.shift[r];
    if (whole_rows_) shift += normalize_weights(weights, gradients, vectors, sum);
    finish_gradients(weights, gradients, kept, vectors, shift);
  }

  // weights: scores -> P, whose sum is returned; gradients: g V^T -> W.
  C rebuild_weights(C* weights, C* gradients, const int16_t* kept, const KeyRange& vectors, C lse) {
    const Tag<C> d;
    const int64_t step = hn::Lanes(d);
    const Vec<C> zero = hn::Zero(d), minus = hn::Set(d, lse);
    const Vec<C> factor = hn::Set(d, static_cast<C>(dropout_scale(in_.dropout)));
    Vec<C> sum = zero;
    for (int64_t j = vectors.begin; j < vectors.end; j += step) {
      const Vec<C> weight = exp_score(hn::Sub(hn::LoadU(d, weights + j), minus));
      Vec<C> w = hn::LoadU(d, gradients + j);
      if (kept != nullptr) w = keep_or_zero(hn::Mul(w, factor), kept + j);
      // A hidden key may have made W NaN.
      w = hn::IfThenElse(hn::Eq(weight, zero), zero, w);
      hn::StoreU(weight, d, weights + j);
      hn::StoreU(w, d, gradients + j);
      sum = hn::Add(sum, weight);
    }
    return whole_rows_ ? sum_of_lanes<C>(sum) : C{1};
  }

  // Divides P by its sum; returns sum(P W).
  C normalize_weights(C* weights, const C* gradients, const KeyRange& vectors, C sum) {
    const Tag<C> d;
    const Vec<C> total = hn::Set(d, sum == 0 ? C{1} : sum);
    Vec<C> product = hn::Zero(d);
    for (int64_t j = vectors.begin; j < vectors.end; j += static_cast<int64_t>(hn::Lanes(d))) {
      const Vec<C> weight = hn::Div(hn::LoadU(d, weights + j), total);
      hn::StoreU(weight, d, weights + j);
      product = hn::MulAdd(weight, hn::LoadU(d, gradients + j), product);
    }
    return sum_of_lanes<C>(product);
  }

  // gradients: W -> dS; weights: P -> P with dropped weights 0; both rounded once.
  void finish_gradients(C* weights, C* gradients, const int16_t* kept, const KeyRange& vectors,
                        C shift) {
    const Tag<C> d;
    const int64_t step = hn::Lanes(d);
    const Vec<C> lower = hn::Set(d, shift), zero = hn::Zero(d);
    for (int64_t j = vectors.begin; j < vectors.end; j += step) {
      Vec<C> weight = hn::LoadU(d, weights + j);
      const Vec<C> w = hn::LoadU(d, gradients + j);
      const Vec<C> gradient =
          hn::IfThenElse(hn::Eq(weight, zero), zero, hn::Mul(weight, hn::Sub(w, lower)));
      if (kept != nullptr) weight = keep_or_zero(weight, kept + j);
      hn::StoreU(rounded_to<T>(weight), d, weights + j);
      hn::StoreU(rounded_to<T>(gradient), d, gradients + j);
    }
  }

  TilePlace tile_;
  Span queries_;
  int64_t first_key_ = 0, keys_ = 0;
  int64_t packed_ = 0;
  bool whole_rows_ = false;
};

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_ATTENTION_DIFFERENTIATE_INL_H
