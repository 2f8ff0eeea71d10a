// Forward pass: tiles of keys under blocks of query rows, softmax over the tiles as they come.
#include <algorithm>
#include <limits>

#include "csrc/kernels/attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "csrc/kernels/attention/cpu/forward.cpp"
#include <hwy/foreach_target.h>
// Highway's headers must follow foreach_target.h.
#include "csrc/kernels/attention/cpu/combine-inl.h"
#include "csrc/kernels/attention/cpu/forward_products-inl.h"
#include "csrc/kernels/attention/cpu/softmax-inl.h"
#include "csrc/kernels/cpu/instruction_set.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename T>
class ForwardItems {
  using C = Compute<T>;
  static constexpr int64_t kDepth = 64;  // of a product, so that its values stay in the L1 cache

 public:
  ForwardItems(const ForwardParams<T>& params, const Memory& memory)
      : in_(params),
        memory_(memory),
        layout_(params),
        arena_(memory.scratch),
        buffers_(arena_, params, layout_),
        products_(params, buffers_) {}

  void run(int64_t item) {
    place_ = layout_.place(item);
    partial_ = layout_.template partial<C>(place_, memory_.workspace);
    queries_ = in_.sequences.query(place_.b);
    keys_ = in_.sequences.key(place_.b);
    whole_ = layout_.splits == 1 && keys_.length <= kTileKeys;
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
    const Tag<C> d;
    for (int64_t r = 0; r < tile_.rows.count; r += static_cast<int64_t>(hn::Lanes(d))) {
      hn::StoreU(minus_infinity(d), d, buffers_.largest + r);
      hn::StoreU(hn::Zero(d), d, buffers_.sum + r);
    }
    started_ = 0;
    blocking_ = blocking<C>(tile_.rows.count, round_up_to_vectors<C>(in_.value_width));
    choose_output();
    products_.set_queries(query_rows(in_.query, tile_, queries_, in_.width, buffers_.query_rows));
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
    const RowList<T> values = key_rows(in_, in_.value, place, in_.value_width, buffers_.value_rows);
    products_.scores(view_, keys, ahead(keys));
    if (drops()) draw_tile(in_.dropout, in_.heads, tile_, view_.all(), buffers_.words);
    for_each_vector<T>(view_.rows(), [&](auto d, int64_t r) { weigh(d, r); });

    const bool may_be_zero = drops() || has_elements(in_) || seen_by_all.begin > tile_.first_key ||
                             seen_by_all.end < tile_.first_key + tile_.keys;
    const RowsAhead next = ahead(values);
    // Parts begin at even keys: pairs of keys stay together.
    for (int64_t j = view_.all().begin / 2 * 2; j < view_.all().end; j += kDepth) {
      const KeyRange part{j, std::min(j + kDepth, view_.all().end)};
      products_.set_values(view_, values, part, may_be_zero);
      for (int64_t r = 0; r < view_.rows(); r += blocking_.rows) add_values(r, part, next);
    }
  }

  // With a few query rows (decoding) the products take no longer than memory needs to bring keys
  // and values: each product asks for the rows of the next tile, spread over those of this one.
  RowsAhead ahead(const RowList<T>& list) const {
    constexpr int64_t kFewRows = 16;
    const bool has_next = tile_.first_key + 2 * kTileKeys <= keys_.length;
    const bool waits_for_memory =
        view_.rows() <= kFewRows && list.row_stride == list.width && list.column_stride == 1;
    if (!has_next || !waits_for_memory) return {};
    return {reinterpret_cast<const std::byte*>(list.rows[0] + kTileKeys * list.row_stride),
            list.width * static_cast<int64_t>(sizeof(T)), kTileKeys};
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

  // Weights of a block of rows times the values of some keys.
  void add_values(int64_t r, KeyRange keys, const RowsAhead& next) {
    const int64_t rows = std::min(blocking_.rows, view_.rows() - r);
    const uint32_t bit = 1u << (r / blocking_.rows);
    C* output = output_.data + r * output_.stride;
    if (keys.begin <= view_.all().begin && (started_ & bit) != 0) lower(r, rows, output);
    const KeyRange seen = view_.of_rows(r, r + rows);
    keys = {std::max(keys.begin, seen.begin), std::min(keys.end, seen.end)};
    if (keys.begin >= keys.end) return;
    products_.add_values(r, rows, keys, blocking_.columns, output, output_.stride,
                         (started_ & bit) != 0 ? Store::kAdd : Store::kWrite,
                         next.part(r / blocking_.rows, divide_up(view_.rows(), blocking_.rows)));
    started_ |= bit;
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
  const Memory memory_;
  const ForwardLayout layout_;
  Arena arena_;
  const ForwardBuffers<T> buffers_;
  ForwardProducts<T> products_;
  // Of the item:
  ForwardPlace place_;
  ForwardPartial<C> partial_;
  Span queries_, keys_;
  bool whole_ = false;       // one tile holds all keys
  uint32_t started_ = 0;     // a bit for each block of rows that has met keys
  Sums output_{};            // by row of the tile
  Blocking blocking_{1, 1};  // of the products with the values
  TilePlace tile_;
  TileView view_;
};

template <typename T>
void forward_of(const void* erased, size_t phase, const ItemRange& items, const Memory& memory) {
  const auto& params = *static_cast<const ForwardParams<T>*>(erased);
  if (phase == 0) {
    ForwardItems<T> forward(params, memory);
    for (int64_t item = items.begin; item < items.end; ++item) forward.run(item);
  } else {
    for (int64_t item = items.begin; item < items.end; ++item) {
      combine(params, item, memory.workspace);
    }
  }
}

void run_forward(ElementType type, const void* params, size_t phase, const ItemRange& items,
                 const Memory& memory) {
  visit(type, [&](auto number) {
    using T = decltype(number);
    forward_of<T>(params, phase, items, memory);
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
void run(const ForwardParams<T>& params, size_t phase, const ItemRange& items,
         const Memory& memory) {
  HWY_DYNAMIC_DISPATCH(cpu::run_forward)(kElementType<T>, &params, phase, items, memory);
}

template Plan plan(const ForwardParams<float>&);
template Plan plan(const ForwardParams<double>&);
template Plan plan(const ForwardParams<BFloat16>&);
template Plan plan(const ForwardParams<Half>&);
template void run(const ForwardParams<float>&, size_t, const ItemRange&, const Memory&);
template void run(const ForwardParams<double>&, size_t, const ItemRange&, const Memory&);
template void run(const ForwardParams<BFloat16>&, size_t, const ItemRange&, const Memory&);
template void run(const ForwardParams<Half>&, size_t, const ItemRange&, const Memory&);

}  // namespace headwise::kernels
#endif  // HWY_ONCE
