// Scores of a tile: which columns each row sees, the product, scale, bias and hiding.
#if defined(HEADWISE_ATTENTION_SCORES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_SCORES_INL_H
#undef HEADWISE_ATTENTION_SCORES_INL_H
#else
#define HEADWISE_ATTENTION_SCORES_INL_H
#endif

#include <algorithm>

#include "csrc/kernels/attention/cpu/tiles.h"
#include "csrc/kernels/cpu/arena.h"
#include "csrc/kernels/cpu/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// Bias and element mask of one row of a tile; -inf where hidden.
template <typename T>
void fill_elements(const AttentionInputs<T>& in, const TilePlace& at, int64_t r,
                   const KeyRange& keys, Compute<T>* elements) {
  using C = Compute<T>;
  constexpr C kHidden = -std::numeric_limits<C>::infinity();
  const int64_t h = at.rows.head(r), i = at.rows.row(r);
  if (in.bias.data == nullptr) {
    std::fill(elements + keys.begin, elements + keys.end, C{0});
  } else {
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      elements[j] = in.bias.template at<T>(at.b, h, i, at.first_key + j);
    }
  }
  if (in.mask.view.data == nullptr) return;
  const bool hidden = in.mask.hidden_value;
  const int64_t step = in.mask.view.column;
  const bool* mask = in.mask.view.at(at.b, h, i) + at.first_key * step;
  if (step == 1) {
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      elements[j] = mask[j] == hidden ? kHidden : elements[j];
    }
  } else {
    for (int64_t j = keys.begin; j < keys.end; ++j) {
      if (mask[j * step] == hidden) elements[j] = kHidden;
    }
  }
}

// Looks at one row: its range ends at the first and last visible key.
template <typename T>
KeyRange look_at_row(const AttentionInputs<T>& in, const TilePlace& at, int64_t r,
                     Compute<T>* elements) {
  using C = Compute<T>;
  constexpr C kHidden = -std::numeric_limits<C>::infinity();
  KeyRange range = visible_range(in.rule, at.rows.row(r), in.sequences.query(at.b).length,
                                 in.sequences.key(at.b).length);
  range.begin = std::max<int64_t>(range.begin - at.first_key, 0);
  range.end = std::min(range.end - at.first_key, at.keys);
  if (range.end <= range.begin) range = {};
  if (elements == nullptr) return range;
  std::fill_n(elements, kTileKeys, kHidden);
  fill_elements(in, at, r, range, elements);
  while (range.begin < range.end && elements[range.begin] == kHidden) ++range.begin;
  while (range.end > range.begin && elements[range.end - 1] == kHidden) --range.end;
  return range.end == range.begin ? KeyRange{} : range;
}

template <typename T>
HWY_INLINE bool has_elements(const AttentionInputs<T>& in) {
  return in.mask.view.data != nullptr || in.bias.data != nullptr;
}

// What the rows of a tile see. Bias and element mask, if any, are left in `elements`
// (kTileKeys, kTileRows).
template <typename T>
void look(const AttentionInputs<T>& in, const TilePlace& at, Compute<T>* elements, TileView& view) {
  using C = Compute<T>;
  constexpr int64_t kStrip = 4;
  const bool reads_elements = has_elements(in);
  const MaskRule& rule = in.rule;
  if (!reads_elements && !rule.causal && rule.left < 0 && rule.right < 0) {
    view.set_all(at.rows.count, {0, at.keys});
    return;
  }
  const int64_t rows = at.rows.count;
  view.start(rows);
  HWY_ALIGN C strip[kStrip][kTileKeys];
  for (int64_t r = 0; r < rows; ++r) {
    view.set_row(r, look_at_row(in, at, r, reads_elements ? strip[r % kStrip] : nullptr));
    if (!reads_elements || (r % kStrip != kStrip - 1 && r + 1 != rows)) continue;
    for (int64_t j = 0; j < kTileKeys; j += lanes<C>()) {
      const C* from[kStrip] = {strip[0] + j, strip[1] + j, strip[2] + j, strip[3] + j};
      transpose_vectors(from, elements + j * kTileRows + r / kStrip * kStrip, kTileRows);
    }
  }
}

// out(j, r) = key j . row r for all that the rows see; rows transposed in panels. Vectors of rows
// that see none of a block of keys are left as they are. The rows `next`, one a key, are
// asked for.
template <typename F, typename C = Sum<F>>
void score_product(const TileView& view, const Operand<F>& keys, const F* transposed_rows,
                   int64_t width, C* out, const RowsAhead& next = {}) {
  const int64_t step = lanes<C>();
  const KeyRange& all = view.all();
  for (int64_t start = 0, stride; start < view.rows(); start += stride) {
    stride = panel_width<C>(view.rows() - start);
    const int64_t most = most_rows(static_cast<int>(stride / step));
    const int64_t share = even_share(all.end - all.begin, most);
    for (int64_t j = all.begin; j < all.end; j += share) {
      const int64_t count = std::min(share, all.end - j);
      const RowRange seen = view.rows_that_see(j, j + count);
      const int64_t from = std::max(seen.begin / step * step, start);
      const int64_t to = std::min(seen.end, start + stride);
      if (from >= to) continue;
      const LeftFactor<F> left{keys.row(j), keys.stride, 1};
      const RightFactor<F> right{transposed_rows + start * width + (from - start), stride};
      C* products = out + j * kTileRows + from;
      if (next.at == nullptr || start != 0) {
        product_panel(count, to - from, left, right, width, products, kTileRows, Store::kWrite);
      } else {
        product_panel<true>(count, to - from, left, right, width, products, kTileRows,
                            Store::kWrite, next.share(j, count, width));
      }
    }
  }
}

// The scores of as many query rows as a vector has lanes, down the keys of a tile.
template <typename C, class D = Tag<C>>
struct ScoreColumn {
  using V = hn::Vec<D>;

  C* scores;          // products, of the first row; the next key lies kTileRows further
  const C* elements;  // likewise; null: no bias, no element mask
  V scale;
  KeyRange range;  // keys that any of the rows sees
  bool even;       // all rows see all of them
  V begin, end;    // of each row

  HWY_INLINE V score(int64_t j) const {
    const D d;
    const V hidden = minus_infinity(d);
    V x = hn::Mul(hn::LoadU(d, scores + j * kTileRows), scale);
    if (elements != nullptr) {
      const V e = hn::LoadU(d, elements + j * kTileRows);
      x = hn::IfThenElse(hn::Eq(e, hidden), hidden, hn::Add(x, e));
    }
    if (even) return x;
    const V key = hn::Set(d, static_cast<C>(j));
    return hn::IfThenElse(hn::And(hn::Ge(key, begin), hn::Lt(key, end)), x, hidden);
  }
};

// The column of rows first … first + lanes - 1. Lanes past the last row hold rubbish that nobody
// reads.
template <typename T, typename C = Compute<T>, class D>
HWY_INLINE ScoreColumn<C, D> column_of(D d, const AttentionInputs<T>& in, const TileView& view,
                                       int64_t first, C* scores, const C* elements) {
  ScoreColumn<C, D> column{scores + first,
                           has_elements(in) ? elements + first : nullptr,
                           hn::Set(d, static_cast<C>(in.scale)),
                           view.all(),
                           view.even(),
                           hn::Zero(d),
                           hn::Zero(d)};
  if (view.even()) return column;
  const int64_t count = std::min<int64_t>(hn::Lanes(d), view.rows() - first);
  HWY_ALIGN C begin[16] = {}, end[16] = {};
  column.range = view.of_rows(first, first + count);
  column.even = true;
  for (int64_t n = 0; n < count; ++n) {
    const KeyRange row = view.row(first + n);
    begin[n] = static_cast<C>(row.begin);
    end[n] = static_cast<C>(row.end);
    column.even &= row.begin == column.range.begin && row.end == column.range.end;
  }
  column.begin = hn::Load(d, begin);
  column.end = hn::Load(d, end);
  return column;
}

// Calls act(tag, first row) for the rows of a tile, as many at a time as a vector has lanes.
template <typename T, class Act>
HWY_INLINE void for_each_vector(int64_t rows, const Act& act) {
  using C = Compute<T>;
  constexpr bool kHasTail = !std::is_same_v<T, Half>;  // whose rounding knows whole vectors alone
  const int64_t step = lanes<C>();
  for (int64_t r = 0; r < rows; r += step) {
    if (kHasTail && (rows - r) * 2 <= step) {
      act(std::conditional_t<kHasTail, TailTag<C>, Tag<C>>(), r);
    } else {
      act(Tag<C>(), r);
    }
  }
}

// What to subtract from scores whose largest, or whose log-sum-exp, is x. Rows that have met
// nothing but -inf keep weights of 0.
template <class V>
HWY_INLINE V shift_of(V x) {
  return hn::IfThenZeroElse(hn::Eq(x, minus_infinity(hn::DFromV<V>())), x);
}

// exp(score - lse); 0 where hidden, even if the row's log-sum-exp is NaN.
template <class V>
HWY_INLINE V weight_of(V score, V lse) {
  const V none = minus_infinity(hn::DFromV<V>());
  return hn::IfThenZeroElse(hn::Eq(score, none), exp_score(hn::Sub(score, lse)));
}

// Zeros for the keys of `all` that no row of the column sees.
template <class D>
HWY_INLINE void clear_around(D d, hn::TFromD<D>* column, const KeyRange& range,
                             const KeyRange& all) {
  const int64_t begin = range.begin == range.end ? all.end : range.begin;
  for (int64_t j = all.begin; j < begin; ++j) {
    hn::StoreU(hn::Zero(d), d, column + j * kTileRows);
  }
  for (int64_t j = std::max(range.end, begin); j < all.end; ++j) {
    hn::StoreU(hn::Zero(d), d, column + j * kTileRows);
  }
}

// Where the rows of a tile lie in memory; `rows` is filled.
template <typename T>
RowList<T> query_rows(const View<const T>& view, const TilePlace& at, const Span& span,
                      int64_t width, const T** rows) {
  const TileRows& tile = at.rows;
  for (int64_t r = 0; r < tile.count; ++r) {
    rows[r] = view.at(at.b, tile.head(r), span.first + tile.row(r));
  }
  int64_t stride = 0;
  if (tile.count > 0 && tile.head(0) == tile.head(tile.count - 1)) {
    stride = view.row;
  } else if (tile.rows_per_head == 1) {
    stride = view.head;
  }
  return {rows, tile.count, width, view.column, stride};
}
template <typename T>
RowList<T> key_rows(const AttentionInputs<T>& in, const View<const T>& view, const KeyPlace& at,
                    int64_t width, const T** rows) {
  const int64_t offset = in.sequences.key(at.b).first;
  for (int64_t j = 0; j < at.count; ++j) {
    const int64_t position = at.first + j;
    rows[j] = view.at(in.beam_index.row(at.b, position), at.group, offset + position);
  }
  const bool even = in.beam_index.data == nullptr || in.beam_index.position == 0;
  return {rows, at.count, width, view.column, even ? view.row : 0};
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_ATTENTION_SCORES_INL_H
