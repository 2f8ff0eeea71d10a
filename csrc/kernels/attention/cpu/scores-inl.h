// Scores of a tile: which columns each row sees, the product, scale, bias and hiding.
#if defined(HEADWISE_ATTENTION_SCORES_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_SCORES_INL_H
#undef HEADWISE_ATTENTION_SCORES_INL_H
#else
#define HEADWISE_ATTENTION_SCORES_INL_H
#endif

#include <algorithm>

#include "csrc/kernels/attention/cpu/arena.h"
#include "csrc/kernels/attention/cpu/pack-inl.h"
#include "csrc/kernels/attention/cpu/tiles.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// Bias and element mask of one row of a tile; -inf where hidden.
template <typename T>
void fill_elements(const AttentionInputs<T>& in, const TilePlace& at, int64_t r,
                   const KeyRange& columns, Compute<T>* elements) {
  using C = Compute<T>;
  constexpr C kHidden = -std::numeric_limits<C>::infinity();
  const int64_t h = at.rows.head(r), i = at.rows.row(r);
  if (in.bias.data == nullptr) {
    std::fill(elements + columns.begin, elements + columns.end, C{0});
  } else {
    for (int64_t j = columns.begin; j < columns.end; ++j) {
      elements[j] = in.bias.template at<T>(at.b, h, i, at.first_key + j);
    }
  }
  if (in.mask.view.data == nullptr) return;
  const bool hidden = in.mask.hidden_value;
  const bool* mask = in.mask.view.at(at.b, h, i) + at.first_key * in.mask.view.column;
  const int64_t step = in.mask.view.column;
  if (step == 1) {
    for (int64_t j = columns.begin; j < columns.end; ++j) {
      elements[j] = mask[j] == hidden ? kHidden : elements[j];
    }
  } else {
    for (int64_t j = columns.begin; j < columns.end; ++j) {
      if (mask[j * step] == hidden) elements[j] = kHidden;
    }
  }
}

// What the rows see. `elements` (kTileRows, kTileKeys) is filled where a bias or an element mask
// came, and the ranges end at the first and last visible column.
template <typename T>
void look(const AttentionInputs<T>& in, const TilePlace& at, Compute<T>* elements, TileView& view) {
  using C = Compute<T>;
  constexpr C kHidden = -std::numeric_limits<C>::infinity();
  const int64_t query_length = in.sequences.query(at.b).length;
  const int64_t key_length = in.sequences.key(at.b).length;
  view.rows = at.rows.count;
  view.all = {};
  for (int64_t r = 0; r < at.rows.count; ++r) {
    KeyRange range = visible_range(in.rule, at.rows.row(r), query_length, key_length);
    range.begin = std::max<int64_t>(range.begin - at.first_key, 0);
    range.end = std::min(range.end - at.first_key, at.keys);
    if (range.end <= range.begin) range = {};
    if (elements != nullptr && range.begin != range.end) {
      C* row = elements + r * kTileKeys;
      fill_elements(in, at, r, range, row);
      while (range.begin < range.end && row[range.begin] == kHidden) ++range.begin;
      while (range.end > range.begin && row[range.end - 1] == kHidden) --range.end;
      if (range.end == range.begin) range = {};
    }
    view.row[r] = range;
    TileView::merge(range, view.all);
  }
}

// Columns of whole vectors around a range.
template <typename C>
HWY_INLINE KeyRange whole_vectors(const KeyRange& range) {
  const int64_t step = lanes<C>();
  return {range.begin / step * step, round_up_to_vectors<C>(range.end)};
}

// out(r, j) = row r . key j for all that the rows see; keys transposed in panels. Panels that no
// row of a block sees are skipped and their numbers left as they are.
template <typename C>
void score_product(const TileView& view, const Operand<C>& left, const C* transposed, int64_t keys,
                   int64_t width, C* out) {
  const int64_t panel = panel_width<C>(), columns = round_up_to_vectors<C>(keys);
  const int64_t step = lanes<C>();
  for (int64_t start = view.all.begin / panel * panel; start < view.all.end; start += panel) {
    const int64_t stride = std::min(panel, columns - start);
    for (int64_t r = 0; r < view.rows; r += kBlockRows) {
      const int64_t rows = std::min<int64_t>(kBlockRows, view.rows - r);
      const KeyRange seen = whole_vectors<C>(view.of_rows(r, r + rows));
      const int64_t from = std::max(seen.begin, start), to = std::min(seen.end, start + stride);
      if (to <= from) continue;
      product_panel(rows, (to - from) / step, {left.row(r), left.stride, 1},
                    {transposed + start * width + (from - start), stride}, width,
                    out + r * kTileKeys + from, kTileKeys, Store::kWrite);
    }
  }
}

// One vector of products becomes scores, -inf where hidden. `elements` may be null.
template <typename C>
HWY_INLINE Vec<C> finished_scores(const C* scores, int64_t j, const KeyRange& range, Vec<C> scale,
                                  const C* elements) {
  const Tag<C> d;
  const Vec<C> hidden = minus_infinity<C>();
  Vec<C> x = hn::Mul(hn::LoadU(d, scores + j), scale);
  if (elements != nullptr) {
    const Vec<C> e = hn::LoadU(d, elements + j);
    x = hn::IfThenElse(hn::Eq(e, hidden), hidden, hn::Add(x, e));
  }
  if (j < range.begin || j + static_cast<int64_t>(hn::Lanes(d)) > range.end) {
    x = hn::IfThenElse(lanes_within<C>(j, range.begin, range.end), x, hidden);
  }
  return x;
}

// The same for all of a row, in place; returns the largest.
template <typename C>
HWY_INLINE C finish_scores(C* scores, const KeyRange& range, C factor, const C* elements) {
  const Tag<C> d;
  const Vec<C> scale = hn::Set(d, factor);
  const KeyRange vectors = whole_vectors<C>(range);
  Vec<C> largest = minus_infinity<C>();
  for (int64_t j = vectors.begin; j < vectors.end; j += static_cast<int64_t>(hn::Lanes(d))) {
    const Vec<C> x = finished_scores<C>(scores, j, range, scale, elements);
    hn::StoreU(x, d, scores + j);
    largest = hn::Max(largest, x);
  }
  return largest_lane<C>(largest);
}

// Zeros in the columns of `all` that lie outside the vectors of `range`.
template <typename C>
HWY_INLINE void clear_around(C* row, const KeyRange& range, const KeyRange& all) {
  const KeyRange inner = whole_vectors<C>(range), outer = whole_vectors<C>(all);
  if (range.begin == range.end) {
    std::fill(row + outer.begin, row + outer.end, C{0});
    return;
  }
  std::fill(row + outer.begin, row + inner.begin, C{0});
  std::fill(row + inner.end, row + outer.end, C{0});
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

template <typename T>
HWY_INLINE bool has_elements(const AttentionInputs<T>& in) {
  return in.mask.view.data != nullptr || in.bias.data != nullptr;
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_ATTENTION_SCORES_INL_H
