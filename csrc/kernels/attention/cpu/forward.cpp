// Forward pass: tiles of keys under blocks of query rows, softmax over the tiles as they come.
#include <algorithm>
#include <cmath>
#include <limits>

#include "csrc/kernels/attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "csrc/kernels/attention/cpu/forward.cpp"
#include <hwy/foreach_target.h>
// Highway's headers must follow foreach_target.h.
#include "csrc/kernels/attention/cpu/forward_layout.h"
#include "csrc/kernels/attention/cpu/softmax-inl.h"
#include "csrc/kernels/cpu/instruction_set.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename T>
class ForwardItem {
  using C = Compute<T>;
  static constexpr int64_t kDepth = 64;  // of a product, so that its values stay in the L1 cache

 public:
  ForwardItem(const ForwardParams<T>& params, int64_t item, const Memory& memory)
      : in_(params),
        layout_(params),
        arena_(memory.scratch),
        buffers_(arena_, params, layout_),
        place_(layout_.place(item)),
        partial_(layout_.template partial<C>(place_, memory.workspace)),
        queries_(params.sequences.query(place_.b)),
        keys_(params.sequences.key(place_.b)),
        whole_(layout_.splits == 1 && keys_.length <= kTileKeys) {}

  void run() {
    const int64_t row = place_.block * layout_.block_rows;
    const int64_t rows = std::min(layout_.block_rows, queries_.length - row);
    tile_.b = place_.b;
    tile_.rows = {place_.group * layout_.group_size, row, std::max<int64_t>(rows, 1), 0, 0};
    for (int64_t first = 0; first < layout_.group_size * rows; first += kTileRows) {
      tile_.rows.first = first;
      tile_.rows.count = std::min(kTileRows, layout_.group_size * rows - first);
      attend({row, row + rows});
    }
    if (layout_.splits == 1) blank_rows(std::max(row, queries_.length), row + layout_.block_rows);
  }

 private:
  // One tile of rows against all keys. `rows` of each head.
  void attend(const RowRange& rows) {
    std::fill_n(buffers_.largest, kTileRows, -std::numeric_limits<C>::infinity());
    std::fill_n(buffers_.sum, kTileRows, C{0});
    started_ = 0;
    blocking_ = blocking<C>(tile_.rows.count, round_up_to_vectors<C>(in_.value_width));
    choose_output();
    const RowList<T> list = query_rows(in_.query, tile_, queries_, in_.width, buffers_.query_rows);
    pack_transposed<T>(list, buffers_.transposed_queries);
    const KeyRange all = visible_to_all(in_.rule, rows, queries_.length, keys_.length);
    const KeyRange seen = layout_.keys_of_split(
        place_.split, visible_to_rows(in_.rule, rows, queries_.length, keys_.length));
    for (int64_t key = seen.begin / kTileKeys * kTileKeys; key < seen.end; key += kTileKeys) {
      tile_.first_key = key;
      tile_.keys = std::min(kTileKeys, keys_.length - key);
      attend_tile(all);
    }
    if (layout_.splits == 1) {
      finish();
    } else {
      leave_partial();
    }
  }

  // Where the weighted sums go: straight into the result if they need no more work.
  void choose_output() {
    output_ = {buffers_.output, round_up_to_vectors<C>(in_.value_width)};
    if constexpr (std::is_same_v<T, C>) {
      if (whole_ && layout_.group_size == 1 && output_.stride == in_.value_width) {
        output_ = {in_.output.at(place_.b, tile_.rows.head(0), queries_.first + tile_.rows.row(0)),
                   in_.output.row};
      }
    }
  }
  bool writes_in_place() const { return output_.data != buffers_.output; }

  void attend_tile(const KeyRange& seen_by_all) {
    look(in_, tile_, buffers_.elements, view_);
    if (view_.empty()) return;
    const KeyPlace place{place_.b, place_.group, tile_.first_key, tile_.keys};
    const RowList<T> keys = key_rows(in_, in_.key, place, in_.width, buffers_.key_rows);
    value_list_ = key_rows(in_, in_.value, place, in_.value_width, buffers_.value_rows);
    score_product<C>(view_, left_operand(keys, buffers_.keys), buffers_.transposed_queries,
                     in_.width, buffers_.scores, ahead_of_scores(keys));
    if (drops()) draw_tile(in_.dropout, in_.heads, tile_, view_.all(), buffers_.words);
    for_each_vector<T>(view_.rows(), [&](auto d, int64_t r) { weigh(d, r); });

    if (kReadsValues) read_through(value_list_);
    const bool may_be_zero = drops() || has_elements(in_) || seen_by_all.begin > tile_.first_key ||
                             seen_by_all.end < tile_.first_key + tile_.keys;
    values_ = right_operand(value_list_, !may_be_zero, buffers_.values, unusual_);
    const RowsAhead next = ahead_of_values(keys);
    for (int64_t j = view_.all().begin; j < view_.all().end; j += kDepth) {
      for (int64_t r = 0; r < view_.rows(); r += blocking_.rows) {
        add_values(r, j, std::min(j + kDepth, view_.all().end), next);
      }
    }
  }

  // With a few query rows (decoding) the products take no longer than memory needs to bring keys
  // and values. Both products ask for rows of the next tile. The first cache has too few places for
  // lines on their way to take all of them in time, unless they have 16 bits: the others ask for
  // the next keys alone and read this tile's values before use.
  static constexpr bool kReadsValues = std::is_same_v<T, C>;
  bool waits_for_memory(const RowList<T>& list) const {
    constexpr int64_t kFewRows = 16;
    return view_.rows() <= kFewRows && list.row_stride == list.width && list.column_stride == 1;
  }
  RowsAhead ahead_of_scores(const RowList<T>& keys) const {
    return ahead(keys, 0, kReadsValues ? kTileKeys / 2 : kTileKeys);
  }
  RowsAhead ahead_of_values(const RowList<T>& keys) const {
    if (kReadsValues) return ahead(keys, kTileKeys / 2, kTileKeys / 2);
    return ahead(value_list_, 0, kTileKeys);
  }
  // Rows of the next tile, spread over all rows of this one.
  RowsAhead ahead(const RowList<T>& list, int64_t first, int64_t count) const {
    const bool has_next = tile_.first_key + 2 * kTileKeys <= keys_.length;
    if (!has_next || !waits_for_memory(list)) return {};
    const T* at = list.rows[0] + (kTileKeys + first) * list.row_stride;
    return {reinterpret_cast<const std::byte*>(at),
            list.width * static_cast<int64_t>(sizeof(T)) * count / kTileKeys};
  }
  // Reads a number of each cache line, in parts side by side: the processor fetches ahead in each.
  void read_through(const RowList<T>& list) const {
    constexpr int64_t kParts = 8, kLine = 64 / sizeof(T);
    if (!waits_for_memory(list)) return;
    const int64_t part = list.count * list.width / kParts;
    for (int64_t i = 0; i < part; i += kLine) {
      for (int64_t n = 0; n < kParts; ++n) {
        static_cast<void>(*static_cast<const volatile T*>(list.rows[0] + n * part + i));
      }
    }
  }

  // Softmax of the rows of one vector.
  template <class D>
  void weigh(D d, int64_t r) {
    const SoftmaxColumn<T, D> softmax{
        column_of(d, in_, view_, r, buffers_.scores, buffers_.elements),
        {drops() ? buffers_.words + r : nullptr, in_.dropout.threshold}};
    clear_around(d, buffers_.scores + r, softmax.column.range, view_.all());
    C *largest = buffers_.largest + r, *sum = buffers_.sum + r;
    const hn::Vec<D> before = hn::LoadU(d, largest);
    const hn::Vec<D> now = hn::Max(before, softmax.largest());
    const hn::Vec<D> shift = shift_of(now);
    hn::Vec<D> total = softmax.weigh(shift);
    if (started_ != 0) {
      const hn::Vec<D> decay = exp_score(hn::Sub(before, shift));
      hn::StoreU(decay, d, buffers_.decay + r);
      total = hn::MulAdd(hn::LoadU(d, sum), decay, total);
    }
    hn::StoreU(total, d, sum);
    hn::StoreU(now, d, largest);
    if (whole_ && std::is_same_v<T, C>) {
      const hn::Vec<D> none = hn::Zero(d), factor = hn::Set(d, kept_factor());
      softmax.multiply(hn::IfThenZeroElse(hn::Eq(total, none), hn::Div(factor, total)));
    }
  }

  // Weights of a block of rows times the values of keys begin … end - 1.
  void add_values(int64_t r, int64_t begin, int64_t end, const RowsAhead& next) {
    const int64_t rows = std::min(blocking_.rows, view_.rows() - r);
    const uint32_t bit = 1u << (r / blocking_.rows);
    C* output = output_.data + r * output_.stride;
    if (begin == view_.all().begin && (started_ & bit) != 0) lower(r, rows, output);
    const KeyRange seen = view_.of_rows(r, r + rows);
    begin = std::max(begin, seen.begin);
    end = std::min(end, seen.end);
    if (begin >= end) return;
    const LeftFactor<C> weights{buffers_.scores + begin * kTileRows + r, 1, kTileRows};
    const int64_t width = round_up_to_vectors<C>(in_.value_width), depth = end - begin;
    const RightFactor<C> values{values_.row(begin), values_.stride};
    const Store store = (started_ & bit) != 0 ? Store::kAdd : Store::kWrite;
    if (next.at == nullptr) {
      product(rows, width, blocking_.columns, weights, values, depth, output, output_.stride,
              store);
    } else {
      // Each block of rows asks for its part of the rows that follow.
      const int64_t blocks = divide_up(view_.rows(), blocking_.rows);
      const int64_t part = r / blocking_.rows * (depth * next.row_bytes / blocks);
      product<true>(rows, width, blocking_.columns, weights, values, depth, output, output_.stride,
                    store, {next.at + begin * next.row_bytes + part, next.row_bytes / blocks});
    }
    started_ |= bit;
    if (unusual_.count == 0) return;
    add_unusual_rows<T>(unusual_, value_list_, begin, end - begin, rows, weights, output,
                        output_.stride);
  }

  // Lowers what rows have summed so far to their new largest scores.
  void lower(int64_t r, int64_t rows, C* output) {
    const Tag<C> d;
    for (int64_t n = 0; n < rows; ++n, output += output_.stride) {
      const C decay = buffers_.decay[r + n];
      if (decay == 1) continue;
      for (int64_t i = 0; i < in_.value_width; i += static_cast<int64_t>(hn::Lanes(d))) {
        hn::StoreU(hn::Mul(hn::LoadU(d, output + i), hn::Set(d, decay)), d, output + i);
      }
    }
  }

  bool has_started(int64_t r) const { return (started_ >> (r / blocking_.rows) & 1) != 0; }

  void finish() {
    const Tag<C> d;
    for (int64_t r = 0; r < tile_.rows.count; r += static_cast<int64_t>(hn::Lanes(d))) {
      const Vec<C> log = log_sum(hn::LoadU(d, buffers_.sum + r));
      hn::StoreU(hn::Add(hn::LoadU(d, buffers_.largest + r), log), d, buffers_.largest + r);
    }
    const bool is_done = whole_ && std::is_same_v<T, C>;
    for (int64_t r = 0; r < tile_.rows.count; ++r) {
      const int64_t h = tile_.rows.head(r), i = queries_.first + tile_.rows.row(r);
      T* output = in_.output.at(place_.b, h, i);
      *in_.lse.at(place_.b, h, i) = buffers_.largest[r];
      if (buffers_.sum[r] == 0 || !has_started(r)) {
        std::fill_n(output, in_.value_width, from_compute<T>(0));
      } else if (!writes_in_place()) {
        unpack_row<T>(output_.data + r * output_.stride,
                      is_done ? C{1} : kept_factor() / buffers_.sum[r], in_.value_width, nullptr,
                      output);
      }
    }
  }

  void leave_partial() {
    const int64_t first = tile_.rows.first;
    for (int64_t r = 0; r < tile_.rows.count; ++r) {
      partial_.largest[first + r] = buffers_.largest[r];
      partial_.sum[first + r] = buffers_.sum[r];
      C* to = partial_.output + (first + r) * layout_.value_width;
      if (has_started(r)) {
        std::copy_n(output_.data + r * output_.stride, in_.value_width, to);
      } else {
        std::fill_n(to, in_.value_width, C{0});
      }
    }
  }

  // Rows begin … end - 1 of the block that do not exist.
  void blank_rows(int64_t begin, int64_t end) {
    end = std::min(end, queries_.rows);
    const int64_t first_head = place_.group * layout_.group_size;
    for (int64_t h = first_head; h < first_head + layout_.group_size; ++h) {
      for (int64_t i = queries_.first + begin; i < queries_.first + end; ++i) {
        std::fill_n(in_.output.at(place_.b, h, i), in_.value_width, from_compute<T>(0));
        *in_.lse.at(place_.b, h, i) = -std::numeric_limits<C>::infinity();
      }
    }
  }

  bool drops() const { return in_.dropout.threshold != 0; }
  C kept_factor() const { return static_cast<C>(dropout_scale(in_.dropout)); }

  struct Sums {
    C* data;
    int64_t stride;
  };

  const ForwardParams<T>& in_;
  const ForwardLayout layout_;
  Arena arena_;
  ForwardBuffers<T> buffers_;
  const ForwardPlace place_;
  const ForwardPartial<C> partial_;
  const Span queries_, keys_;
  const bool whole_;         // one tile holds all keys
  uint32_t started_ = 0;     // a bit for each block of rows that has met keys
  Sums output_{};            // by row of the tile
  Blocking blocking_{1, 1};  // of the products with the values
  TilePlace tile_;
  TileView view_;
  RowList<T> value_list_{};
  Operand<C> values_{};
  UnusualRows unusual_{0, buffers_.unusual};
};

// Combines the splits of one group, in the order of the keys.
template <typename T>
void combine(const ForwardParams<T>& p, int64_t item, void* workspace) {
  using C = Compute<T>;
  constexpr C kNothing = -std::numeric_limits<C>::infinity();
  const ForwardLayout layout(p);
  if (layout.splits == 1) return;
  const int64_t b = item / layout.groups, group = item % layout.groups;
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
  visit(type, [&](auto number) {
    using T = decltype(number);
    forward_of<T>(params, phase, item, memory);
  });
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
