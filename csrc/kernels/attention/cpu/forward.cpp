// Forward pass: tiles of keys under blocks of query rows, softmax over the tiles as they come.
#include <algorithm>
#include <cmath>
#include <limits>

#include "csrc/kernels/attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "csrc/kernels/attention/cpu/forward.cpp"
#include <hwy/foreach_target.h>
// Highway's headers must follow foreach_target.h.
#include "csrc/kernels/attention/cpu/dropout-inl.h"
#include "csrc/kernels/attention/cpu/forward_layout.h"
#include "csrc/kernels/attention/cpu/instruction_set.h"
#include "csrc/kernels/attention/cpu/scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename T>
class ForwardItem {
  using C = Compute<T>;

 public:
  ForwardItem(const ForwardParams<T>& params, int64_t item, const Memory& memory)
      : in_(params),
        layout_(params),
        arena_(memory.scratch),
        buffers_(arena_, params, layout_),
        place_(layout_.place(item)),
        partial_(layout_.template partial<C>(place_, memory.workspace)) {}

  void run() {
    const Span queries = in_.sequences.query(place_.b);
    const int64_t row = place_.block * layout_.block_rows;
    const int64_t rows = std::min(layout_.block_rows, queries.length - row);
    if (rows > 0) {
      group_rows_ = {place_.group * layout_.group_size, row, rows, 0, layout_.group_size * rows};
      attend(queries);
    }
    if (layout_.splits == 1) blank_rows(std::max(row, queries.length), row + layout_.block_rows);
  }

 private:
  void attend(const Span& queries) {
    const int64_t rows = group_rows_.count;
    std::fill_n(buffers_.largest, rows, -std::numeric_limits<C>::infinity());
    std::fill_n(buffers_.sum, rows, C{0});
    std::fill_n(buffers_.started, rows, uint8_t{0});
    const KeyRange keys = layout_.keys_of_split(
        place_.split,
        visible_to_rows(in_.rule,
                        {group_rows_.first_row, group_rows_.first_row + group_rows_.rows_per_head},
                        queries.length, in_.sequences.key(place_.b).length));
    for (int64_t key = keys.begin / kTileKeys * kTileKeys; key < keys.end; key += kTileKeys) {
      load_keys(key, std::min(kTileKeys, in_.sequences.key(place_.b).length - key));
      for (int64_t first = 0; first < rows; first += kTileRows) attend_tile(queries, first);
    }
    if (layout_.splits == 1) {
      finish(queries);
    } else {
      leave_partial();
    }
  }

  void load_keys(int64_t first_key, int64_t count) {
    tile_.b = place_.b;
    tile_.first_key = first_key;
    tile_.keys = count;
    keys_packed_ = false;
  }

  // Packs the keys and values of the tile for the first rows that see any of them.
  void pack_keys() {
    if (keys_packed_) return;
    keys_packed_ = true;
    list_key_rows(in_, in_.key, place_.b, place_.group, tile_.first_key, tile_.keys, buffers_.rows);
    pack_transposed<T>({buffers_.rows, tile_.keys, in_.width, in_.key.column}, buffers_.keys,
                       buffers_.copies);
    list_key_rows(in_, in_.value, place_.b, place_.group, tile_.first_key, tile_.keys,
                  buffers_.rows);
    unusual_.count = 0;
    if (!pack_rows<T>(values(), padded_values_, buffers_.values)) {
      take_out_unusual_rows(tile_.keys, padded_values_, buffers_.values, unusual_);
    }
  }

  RowList<T> values() const {
    return {buffers_.rows, tile_.keys, in_.value_width, in_.value.column};
  }

  void attend_tile(const Span& queries, int64_t first) {
    tile_.rows = group_rows_;
    tile_.rows.first = first;
    tile_.rows.count = std::min(kTileRows, group_rows_.count - first);
    C* elements = has_elements(in_) ? buffers_.elements : nullptr;
    look(in_, tile_, elements, view_);
    if (view_.empty()) return;
    pack_keys();
    list_query_rows(in_.query, tile_, queries, buffers_.query_rows);
    pack_rows<T>({buffers_.query_rows, tile_.rows.count, in_.width, in_.query.column},
                 padded_width_, buffers_.queries);
    score_product<C>(view_, {buffers_.queries, padded_width_, 1}, buffers_.keys, tile_.keys,
                     in_.width, buffers_.scores);
    if (in_.dropout.threshold != 0) {
      draw_rows(in_.dropout, in_.heads, tile_, view_, buffers_.kept);
    }
    for (int64_t r = 0; r < view_.rows; r += kBlockRows) {
      weigh_block(r, std::min<int64_t>(kBlockRows, view_.rows - r), elements);
    }
  }

  // Softmax of some rows and their weighted sum of the values.
  void weigh_block(int64_t r, int64_t rows, const C* elements) {
    const KeyRange seen = view_.of_rows(r, r + rows);
    if (seen.begin == seen.end) return;
    const int64_t group_row = tile_.rows.first + r;
    C* output = buffers_.output + group_row * padded_values_;
    // Rows start and tiles end at multiples of a block: a block starts with all its rows.
    const bool started = buffers_.started[group_row] != 0;
    for (int64_t n = 0; n < rows; ++n) {
      buffers_.started[group_row + n] = 1;
      C* scores = buffers_.scores + (r + n) * kTileKeys;
      const KeyRange& range = view_.row[r + n];
      clear_around(scores, range, seen);
      if (range.begin == range.end) continue;
      const C* row_elements = elements == nullptr ? nullptr : elements + (r + n) * kTileKeys;
      weigh_row(scores, range, row_elements, buffers_.kept + (r + n) * kTileKeys, group_row + n,
                started);
    }
    const LeftFactor<C> weights{buffers_.scores + r * kTileKeys + seen.begin, kTileKeys, 1};
    product<C>(rows, padded_values_, weights,
               {buffers_.values + seen.begin * padded_values_, padded_values_},
               seen.end - seen.begin, output, padded_values_,
               started ? Store::kAdd : Store::kWrite);
    if (unusual_.count > 0) {
      add_unusual_rows<T>(unusual_, values(), seen.begin, seen.end - seen.begin, rows, weights,
                          output, padded_values_);
    }
  }

  void weigh_row(C* scores, const KeyRange& range, const C* elements, const int16_t* kept,
                 int64_t group_row, bool started) {
    const Tag<C> d;
    const int64_t step = hn::Lanes(d);
    const C scale = static_cast<C>(in_.scale);
    const C before = buffers_.largest[group_row];
    const C now = std::max(before, finish_scores<C>(scores, range, scale, elements));
    // A row that has met nothing but -inf keeps weights of 0.
    const C shift = now == -std::numeric_limits<C>::infinity() ? C{0} : now;
    const KeyRange vectors = whole_vectors<C>(range);
    const Vec<C> shift_v = hn::Set(d, shift);
    const bool drops = in_.dropout.threshold != 0;
    Vec<C> sum = hn::Zero(d);
    for (int64_t j = vectors.begin; j < vectors.end; j += step) {
      Vec<C> weight = exp_score(hn::Sub(hn::LoadU(d, scores + j), shift_v));
      sum = hn::Add(sum, weight);
      if (drops) weight = keep_or_zero(weight, kept + j);
      hn::StoreU(rounded_to<T>(weight), d, scores + j);
    }
    buffers_.largest[group_row] = now;
    C& total = buffers_.sum[group_row];
    if (started && before != now && before != -std::numeric_limits<C>::infinity()) {
      const C decay = hn::GetLane(exp_score(hn::Set(d, before - now)));
      total *= decay;
      C* output = buffers_.output + group_row * padded_values_;
      for (int64_t i = 0; i < padded_values_; i += step) {
        hn::StoreU(hn::Mul(hn::LoadU(d, output + i), hn::Set(d, decay)), d, output + i);
      }
    }
    total += sum_of_lanes<C>(sum);
  }

  void finish(const Span& queries) {
    for (int64_t n = 0; n < group_rows_.count; ++n) {
      const int64_t h = group_rows_.head(n), i = queries.first + group_rows_.row(n);
      finish_row(n, in_.output.at(place_.b, h, i), *in_.lse.at(place_.b, h, i));
    }
  }

  void finish_row(int64_t n, T* output, C& lse) {
    const C sum = buffers_.sum[n], largest = buffers_.largest[n];
    if (buffers_.started[n] == 0 || sum == 0) {
      std::fill_n(output, in_.value_width, from_compute<T>(0));
      lse = -std::numeric_limits<C>::infinity();
      return;
    }
    lse = largest + std::log(sum);
    const C kept = static_cast<C>(dropout_scale(in_.dropout));
    unpack_row<T>(buffers_.output + n * padded_values_, kept / sum, in_.value_width, nullptr,
                  output);
  }

  void leave_partial() {
    for (int64_t n = 0; n < group_rows_.count; ++n) {
      const bool empty = buffers_.started[n] == 0;
      partial_.largest[n] = empty ? -std::numeric_limits<C>::infinity() : buffers_.largest[n];
      partial_.sum[n] = empty ? C{0} : buffers_.sum[n];
      C* to = partial_.output + n * layout_.value_width;
      if (empty) {
        std::fill_n(to, in_.value_width, C{0});
      } else {
        std::copy_n(buffers_.output + n * padded_values_, in_.value_width, to);
      }
    }
  }

  // Rows begin … end - 1 of the block that do not exist.
  void blank_rows(int64_t begin, int64_t end) {
    const Span queries = in_.sequences.query(place_.b);
    end = std::min(end, queries.rows);
    const int64_t first_head = place_.group * layout_.group_size;
    for (int64_t h = first_head; h < first_head + layout_.group_size; ++h) {
      for (int64_t i = queries.first + begin; i < queries.first + end; ++i) {
        std::fill_n(in_.output.at(place_.b, h, i), in_.value_width, from_compute<T>(0));
        *in_.lse.at(place_.b, h, i) = -std::numeric_limits<C>::infinity();
      }
    }
  }

  const ForwardParams<T>& in_;
  const ForwardLayout layout_;
  Arena arena_;
  ForwardBuffers<T> buffers_;
  const ForwardPlace place_;
  const ForwardPartial<C> partial_;
  const int64_t padded_width_ = round_up_to_vectors<C>(in_.width);
  const int64_t padded_values_ = round_up_to_vectors<C>(in_.value_width);
  TileRows group_rows_;
  TilePlace tile_;
  TileView view_;
  UnusualRows unusual_{0, buffers_.unusual};
  bool keys_packed_ = false;
};

// Combines the splits of one group, in the order of the keys.
template <typename T>
void combine(const ForwardParams<T>& p, int64_t item, void* workspace) {
  using C = Compute<T>;
  constexpr C kNothing = -std::numeric_limits<C>::infinity();
  const ForwardLayout layout(p);
  const int64_t b = item % layout.sequences, group = item / layout.sequences;
  const Span queries = p.sequences.query(b);
  const auto split = [&](int64_t s) {
    return layout.template partial<C>({b, group, 0, s}, workspace);
  };
  const int64_t length = std::min(queries.length, layout.block_rows);
  for (int64_t h = 0; h < layout.group_size; ++h) {
    for (int64_t i = 0; i < queries.rows; ++i) {
      T* output = p.output.at(b, group * layout.group_size + h, queries.first + i);
      C& lse = *p.lse.at(b, group * layout.group_size + h, queries.first + i);
      C largest = kNothing, sum = 0;
      const int64_t n = h * length + i;
      for (int64_t s = 0; i < length && s < layout.splits; ++s) {
        largest = std::max(largest, split(s).largest[n]);
      }
      C total[256] = {};
      for (int64_t s = 0; i < length && s < layout.splits; ++s) {
        const ForwardPartial<C> part = split(s);
        if (part.largest[n] == kNothing && part.sum[n] == 0) continue;
        const C decay = hn::GetLane(exp_score(hn::Set(Tag<C>(), part.largest[n] - largest)));
        sum += decay * part.sum[n];
        const C* from = part.output + n * layout.value_width;
        for (int64_t d = 0; d < layout.value_width; ++d) total[d] += decay * from[d];
      }
      if (sum == 0) {
        std::fill_n(output, layout.value_width, from_compute<T>(0));
        lse = kNothing;
        continue;
      }
      lse = largest + std::log(sum);
      const C kept = static_cast<C>(dropout_scale(p.dropout));
      unpack_row<T>(total, kept / sum, layout.value_width, nullptr, output);
    }
  }
}

template <typename T>
void forward_of(const void* erased, size_t phase, int64_t item, const Memory& memory) {
  const auto& params = *static_cast<const ForwardParams<T>*>(erased);
  if (phase == 0) {
    ForwardItem<T>(params, item, memory).run();
  } else {
    combine(params, item, memory.workspace);
  }
}

void run_forward(ElementType type, const void* params, size_t phase, int64_t item,
                 const Memory& memory) {
  switch (type) {
    case ElementType::kFloat:
      return forward_of<float>(params, phase, item, memory);
    case ElementType::kDouble:
      return forward_of<double>(params, phase, item, memory);
    case ElementType::kBFloat16:
      return forward_of<BFloat16>(params, phase, item, memory);
    case ElementType::kHalf:
      return forward_of<Half>(params, phase, item, memory);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise::kernels {
namespace cpu {
HWY_EXPORT(run_forward);
}  // namespace cpu

template <typename T>
Plan plan(const ForwardParams<T>& params) {
  const cpu::ForwardLayout layout(params);
  cpu::Arena arena(nullptr);
  const cpu::ForwardBuffers<T> buffers(arena, params, layout);
  const int64_t pairs =
      layout.rows() *
      std::min(layout.keys, layout.splits == 1 ? layout.keys : cpu::ForwardLayout::kSplitKeys);
  Plan plan{"cpu/tiles", cpu::instruction_set(), {}};
  plan.tile = {std::min(cpu::kTileRows, layout.rows()), cpu::kTileKeys};
  plan.block = {layout.rows(), layout.splits == 1 ? layout.keys : cpu::ForwardLayout::kSplitKeys};
  plan.phases.push_back(
      {layout.items(), arena.bytes(), pairs * (params.width + params.value_width)});
  if (layout.splits > 1) {
    plan.phases.push_back(
        {layout.combined_items(), 0, layout.rows() * layout.splits * params.value_width});
    plan.workspace_bytes = layout.workspace_bytes<Compute<T>>();
  }
  return plan;
}

template <typename T>
void run(const ForwardParams<T>& params, size_t phase, int64_t item, const Memory& memory) {
  HWY_DYNAMIC_DISPATCH(cpu::run_forward)(kElementType<T>, &params, phase, item, memory);
}

template Plan plan(const ForwardParams<float>&);
template Plan plan(const ForwardParams<double>&);
template Plan plan(const ForwardParams<BFloat16>&);
template Plan plan(const ForwardParams<Half>&);
template void run(const ForwardParams<float>&, size_t, int64_t, const Memory&);
template void run(const ForwardParams<double>&, size_t, int64_t, const Memory&);
template void run(const ForwardParams<BFloat16>&, size_t, int64_t, const Memory&);
template void run(const ForwardParams<Half>&, size_t, int64_t, const Memory&);

}  // namespace headwise::kernels
#endif  // HWY_ONCE
