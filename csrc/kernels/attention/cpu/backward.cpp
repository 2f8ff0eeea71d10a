// Backward pass; the weights are rebuilt from the log-sum-exp, tile by tile:
//   dV = (P F)^T g,   dQ = scale dS K,   dK = scale dS^T Q,   dBias = dS summed where it broadcasts
#include <algorithm>

#include "csrc/kernels/attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "csrc/kernels/attention/cpu/backward.cpp"
#include <hwy/foreach_target.h>
// Highway's headers must follow foreach_target.h.
#include "csrc/kernels/attention/cpu/backward_layout.h"
#include "csrc/kernels/attention/cpu/differentiate-inl.h"
#include "csrc/kernels/cpu/instruction_set.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// What query block (k + phase) mod n and key block k of one group give each other.
template <typename T>
class InputGradients {
  using C = Compute<T>;
  static constexpr int64_t kDepth = 64;  // of a product, so that its keys stay in the L1 cache
  // Scale and dropout's factor go into score gradients and weights unless these are rounded first.
  static constexpr bool kFactorsInside = std::is_same_v<T, C>;

 public:
  InputGradients(const BackwardParams<T>& params, const Memory& memory)
      : in_(params),
        layout_(params),
        sums_(params, layout_, memory.workspace),
        arena_(memory.scratch),
        buffers_(arena_, params),
        factors_{static_cast<C>(dropout_scale(params.dropout)), static_cast<C>(params.scale)},
        tiles_(params, buffers_, kFactorsInside ? factors_ : GradientFactors<C>{}) {}

  void run(int64_t phase, int64_t item) {
    // The heads of a sequence follow each other: they share its cache lines.
    key_block_ = item % layout_.blocks;
    group_ = item / layout_.blocks % layout_.groups;
    b_ = item / layout_.blocks / layout_.groups;
    blocks_ = BackwardLayout::blocks_of(in_, b_);
    if (phase >= blocks_ || key_block_ >= blocks_) return;
    const int64_t query_block = (key_block_ + phase) % blocks_;
    is_first_ = phase == 0;
    is_last_ = phase == blocks_ - 1;
    queries_ = in_.sequences.query(b_);
    keys_ = in_.sequences.key(b_);
    constexpr int64_t kBlock = BackwardLayout::kBlock;
    const int64_t row = query_block * kBlock, key = key_block_ * kBlock;
    const int64_t rows = std::clamp<int64_t>(queries_.length - row, 0, kBlock);
    block_ = {b_, group_, key, std::clamp<int64_t>(keys_.length - key, 0, kBlock)};
    group_rows_ = {group_ * layout_.group_size, row, std::max<int64_t>(rows, 1), 0,
                   layout_.group_size * rows};
    const KeyRange seen =
        visible_to_rows(in_.rule, {row, row + rows}, queries_.length, keys_.length);
    const bool meet = seen.begin < key + block_.count && seen.end > key;
    if (meet || is_first_ || is_last_) add_all(meet);
    if (is_first_ && key_block_ == blocks_ - 1) blank_padding();
  }

 private:
  // Where sums go: number (r, i) at data[r * stride + i].
  struct Sums {
    C* data;
    int64_t stride;
  };

  void add_all(bool meet) {
    tiles_.set_keys(block_);
    const bool in_place = choose_sums();
    if (!in_place) {
      std::fill_n(buffers_.key_gradient, block_.count * tiles_.width(), C{0});
      std::fill_n(buffers_.value_gradient, block_.count * tiles_.value_width(), C{0});
    }
    for (int64_t first = 0; first < group_rows_.count; first += kTileRows) {
      TileRows rows = group_rows_;
      rows.first = first;
      rows.count = std::min(kTileRows, group_rows_.count - first);
      if (meet) tiles_.set_rows(rows);
      add_tile(rows, meet, in_place);
    }
    if (!in_place) leave_keys();
  }

  // Products go straight into the results if each is written by one product and needs no more work.
  bool choose_sums() {
    query_sums_ = {buffers_.query_gradient, tiles_.width()};
    key_sums_ = {buffers_.key_gradient, tiles_.width()};
    value_sums_ = {buffers_.value_gradient, tiles_.value_width()};
    if constexpr (std::is_same_v<T, C>) {
      const bool one_tile = blocks_ == 1 && layout_.group_size == 1 && block_.count <= kTileKeys &&
                            group_rows_.count <= kTileRows && group_rows_.count > 0;
      if (one_tile && tiles_.width() == in_.width && tiles_.value_width() == in_.value_width) {
        query_sums_ = {in_.query_gradient.at(b_, group_, queries_.first), in_.query_gradient.row};
        key_sums_ = {in_.key_gradient.at(b_, group_, keys_.first), in_.key_gradient.row};
        value_sums_ = {in_.value_gradient.at(b_, group_, keys_.first), in_.value_gradient.row};
        return true;
      }
    }
    return false;
  }

  void add_tile(const TileRows& rows, bool meet, bool in_place) {
    if (!in_place) std::fill_n(buffers_.query_gradient, rows.count * tiles_.width(), C{0});
    bool written = false;
    for (int64_t offset = 0; meet && offset < block_.count; offset += kTileKeys) {
      if (!tiles_.differentiate(offset)) continue;
      const Store store = in_place ? Store::kWrite : Store::kAdd;
      add_to_queries(offset, store);
      add_to_keys(offset, store);
      written = true;
    }
    if (!in_place) {
      leave_queries(rows);
    } else if (!written) {
      clear(query_sums_, 0, rows.count, in_.width);
      clear(key_sums_, 0, block_.count, in_.width);
      clear(value_sums_, 0, block_.count, in_.value_width);
    }
  }

  static void clear(const Sums& sums, int64_t begin, int64_t end, int64_t width) {
    for (int64_t r = begin; r < end; ++r) std::fill_n(sums.data + r * sums.stride, width, C{0});
  }

  // dQ, a block of query rows at a time.
  void add_to_queries(int64_t offset, Store store) {
    const TileView& view = tiles_.view;
    const Operand<C> keys = tiles_.keys(offset);
    const Blocking blocks = blocking<C>(view.rows(), tiles_.width());
    for (int64_t start = view.all().begin; start < view.all().end; start += kDepth) {
      for (int64_t r = 0; r < view.rows(); r += blocks.rows) {
        const int64_t rows = std::min(blocks.rows, view.rows() - r);
        const KeyRange seen = view.of_rows(r, r + rows);
        const int64_t begin = std::max(seen.begin, start);
        const int64_t end = std::min(seen.end, std::min(start + kDepth, view.all().end));
        if (begin >= end) {
          if (store == Store::kWrite && seen.begin == seen.end) {
            clear(query_sums_, r, r + rows, in_.width);
          }
          continue;
        }
        const LeftFactor<C> left{buffers_.score_gradients + begin * kTileRows + r, 1, kTileRows};
        C* sums = query_sums_.data + r * query_sums_.stride;
        product(rows, tiles_.width(), blocks.columns, left, {keys.row(begin), keys.stride},
                end - begin, sums, query_sums_.stride, begin == seen.begin ? store : Store::kAdd);
        add_unusual_rows<T>(tiles_.unusual_keys, tiles_.key_list, offset + begin, end - begin, rows,
                            left, sums, query_sums_.stride);
      }
    }
  }

  // dK and dV, a block of keys at a time.
  void add_to_keys(int64_t offset, Store store) {
    const TileView& view = tiles_.view;
    if (store == Store::kWrite) {
      clear_keys(0, view.all().begin);
      clear_keys(view.all().end, block_.count);
    }
    const KeyRange& all = view.all();
    const int64_t count = all.end - all.begin;
    const Blocking key_blocks = blocking<C>(count, tiles_.width());
    const Blocking value_blocks = blocking<C>(count, tiles_.value_width());
    const int64_t block = std::min(key_blocks.rows, value_blocks.rows);
    for (int64_t j = all.begin; j < all.end; j += block) {
      const int64_t keys = std::min(block, all.end - j);
      const RowRange seen = view.rows_that_see(j, j + keys);
      if (seen.begin == seen.end) {
        if (store == Store::kWrite) clear_keys(j, j + keys);
        continue;
      }
      const int64_t at = j * kTileRows + seen.begin, depth = seen.end - seen.begin;
      const LeftFactor<C> scores{buffers_.score_gradients + at, kTileRows, 1};
      C* sums = key_sums_.data + (offset + j) * key_sums_.stride;
      product(keys, tiles_.width(), key_blocks.columns, scores,
              {tiles_.queries.row(seen.begin), tiles_.queries.stride}, depth, sums,
              key_sums_.stride, store);
      add_unusual_rows<T>(tiles_.unusual_queries, tiles_.query_list, seen.begin, depth, keys,
                          scores, sums, key_sums_.stride);
      const LeftFactor<C> weights{buffers_.weights + at, kTileRows, 1};
      sums = value_sums_.data + (offset + j) * value_sums_.stride;
      product(keys, tiles_.value_width(), value_blocks.columns, weights,
              {tiles_.gradients.row(seen.begin), tiles_.gradients.stride}, depth, sums,
              value_sums_.stride, store);
      add_unusual_rows<T>(tiles_.unusual_gradients, tiles_.gradient_list, seen.begin, depth, keys,
                          weights, sums, value_sums_.stride);
    }
  }

  void clear_keys(int64_t begin, int64_t end) {
    clear(key_sums_, begin, end, in_.width);
    clear(value_sums_, begin, end, in_.value_width);
  }

  // Adds to what the phases before have left; the last one rounds.
  void leave_row(const C* from, C factor, int64_t width, C* sum, T* result) {
    const C* before = is_first_ ? nullptr : sum;
    if (is_last_) {
      unpack_row<T>(from, factor, width, before, result);
    } else {
      unpack_row<C>(from, factor, width, before, sum);
    }
  }

  void leave_queries(const TileRows& rows) {
    const C factor = kFactorsInside ? C{1} : factors_.scores;
    for (int64_t r = 0; r < rows.count; ++r) {
      const int64_t h = rows.head(r), i = queries_.first + rows.row(r);
      leave_row(buffers_.query_gradient + r * tiles_.width(), factor, in_.width,
                sums_.query.at(b_, h, i), in_.query_gradient.at(b_, h, i));
    }
  }

  void leave_keys() {
    const GradientFactors<C> factors = kFactorsInside ? GradientFactors<C>{} : factors_;
    for (int64_t j = 0; j < block_.count; ++j) {
      const int64_t row = keys_.first + block_.first + j;
      leave_row(buffers_.key_gradient + j * tiles_.width(), factors.scores, in_.width,
                sums_.key.at(b_, group_, row), in_.key_gradient.at(b_, group_, row));
      leave_row(buffers_.value_gradient + j * tiles_.value_width(), factors.weights,
                in_.value_width, sums_.value.at(b_, group_, row),
                in_.value_gradient.at(b_, group_, row));
    }
  }

  // Rows and keys that do not exist.
  void blank_padding() {
    const T zero = from_compute<T>(0);
    for (int64_t n = 0; n < layout_.group_size; ++n) {
      const int64_t h = group_ * layout_.group_size + n;
      for (int64_t i = queries_.length; i < queries_.rows; ++i) {
        std::fill_n(in_.query_gradient.at(b_, h, queries_.first + i), in_.width, zero);
      }
    }
    for (int64_t j = keys_.length; j < keys_.rows; ++j) {
      std::fill_n(in_.key_gradient.at(b_, group_, keys_.first + j), in_.width, zero);
      std::fill_n(in_.value_gradient.at(b_, group_, keys_.first + j), in_.value_width, zero);
    }
  }

  const BackwardParams<T>& in_;
  const BackwardLayout layout_;
  const GradientSums<T> sums_;
  Arena arena_;
  BackwardBuffers<T> buffers_;
  const GradientFactors<C> factors_;
  Differentiator<T> tiles_;
  // Of the item:
  int64_t b_ = 0, group_ = 0, blocks_ = 0, key_block_ = 0;
  bool is_first_ = false, is_last_ = false;
  Span queries_, keys_;
  TileRows group_rows_;
  KeyPlace block_;
  Sums query_sums_{}, key_sums_{}, value_sums_{};
};

// The gradient of the bias entries of one (sequence, head) of the bias, summed in order over all
// sequences, heads, rows and columns that share them.
template <typename T>
void bias_gradient(const BackwardParams<T>& p, int64_t item, const Memory& memory) {
  using C = Compute<T>;
  Arena arena(memory.scratch);
  BackwardBuffers<T> buffers(arena, p);
  Differentiator<T> tiles(p, buffers, {});
  const BiasItems items(p);
  const BiasItems::Place place = items.place(item);
  for (int64_t b = place.b; b < p.sequences.count; b += items.sequences) {
    const int64_t length = p.sequences.query(b).length, keys = p.sequences.key(b).length;
    const int64_t end = std::min(length, place.rows.end);
    for (int64_t h = place.h; h < p.heads; h += items.heads) {
      for (int64_t key = 0; key < keys; key += kTileKeys) {
        tiles.set_keys({b, p.group_of(h), key, std::min(kTileKeys, keys - key)});
        for (int64_t row = place.rows.begin; row < end; row += kTileRows) {
          tiles.set_rows({h, row, end - row, 0, std::min(kTileRows, end - row)});
          if (!tiles.differentiate(0)) continue;
          for (int64_t r = 0; r < tiles.view.rows(); ++r) {
            const KeyRange& range = tiles.view.row(r);
            const C* from = buffers.score_gradients + r;
            C* to = p.bias_gradient.at(b, h, row + r) + key * p.bias_gradient.column;
            for (int64_t j = range.begin; j < range.end; ++j) {
              to[j * p.bias_gradient.column] += from[j * kTileRows];
            }
          }
        }
      }
    }
  }
}

template <typename T>
void backward_of(const void* erased, int64_t phase, const ItemRange& items, const Memory& memory) {
  const auto& params = *static_cast<const BackwardParams<T>*>(erased);
  if (phase < BackwardLayout(params).blocks) {
    InputGradients<T> gradients(params, memory);
    for (int64_t item = items.begin; item < items.end; ++item) gradients.run(phase, item);
  } else {
    for (int64_t item = items.begin; item < items.end; ++item) bias_gradient(params, item, memory);
  }
}

void run_backward(ElementType type, const void* params, size_t phase, const ItemRange& items,
                  const Memory& memory) {
  visit(type, [&](auto number) {
    using T = decltype(number);
    backward_of<T>(params, static_cast<int64_t>(phase), items, memory);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise::kernels {
namespace cpu {
HWY_EXPORT(run_backward);
}  // namespace cpu

template <typename T>
Plan plan(const BackwardParams<T>& params) {
  const cpu::BackwardLayout layout(params);
  cpu::Arena arena(nullptr);
  const cpu::BackwardBuffers<T> buffers(arena, params);
  const auto block = [](int64_t n) { return std::min(cpu::BackwardLayout::kBlock, n); };
  const int64_t pair_cost = 3 * params.width + 2 * params.value_width;
  const int64_t pairs = block(params.sequences.query_rows) * block(params.sequences.key_rows);
  Plan plan{"cpu/tiles", cpu::instruction_set(), {}};
  plan.block = {layout.group_size * block(params.sequences.query_rows),
                block(params.sequences.key_rows)};
  plan.tile = {std::min(cpu::kTileRows, plan.block.rows), cpu::kTileKeys};
  plan.phases.assign(layout.blocks,
                     {layout.items(), arena.bytes(), layout.group_size * pairs * pair_cost});
  if (params.bias_gradient.data != nullptr) {
    const cpu::BiasItems items(params);
    plan.phases.push_back({items.count(), arena.bytes(),
                           params.sequences.query_rows * params.sequences.key_rows * pair_cost /
                               std::max<int64_t>(1, items.blocks)});
  }
  plan.workspace_bytes = cpu::GradientSums<T>(params, layout, nullptr).bytes;
  return plan;
}

template <typename T>
void run(const BackwardParams<T>& params, size_t phase, const ItemRange& items,
         const Memory& memory) {
  HWY_DYNAMIC_DISPATCH(cpu::run_backward)(kElementType<T>, &params, phase, items, memory);
}

template Plan plan(const BackwardParams<float>&);
template Plan plan(const BackwardParams<double>&);
template Plan plan(const BackwardParams<BFloat16>&);
template Plan plan(const BackwardParams<Half>&);
template void run(const BackwardParams<float>&, size_t, const ItemRange&, const Memory&);
template void run(const BackwardParams<double>&, size_t, const ItemRange&, const Memory&);
template void run(const BackwardParams<BFloat16>&, size_t, const ItemRange&, const Memory&);
template void run(const BackwardParams<Half>&, size_t, const ItemRange&, const Memory&);

}  // namespace headwise::kernels
#endif  // HWY_ONCE
