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
#include "csrc/kernels/attention/cpu/instruction_set.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// What query block (k + phase) mod n and key block k of one group give each other.
template <typename T>
class InputGradients {
  using C = Compute<T>;

 public:
  InputGradients(const BackwardParams<T>& params, int64_t phase, int64_t item, const Memory& memory)
      : in_(params),
        layout_(params),
        sums_(params, layout_, memory.workspace),
        arena_(memory.scratch),
        buffers_(arena_, params),
        tiles_(params, buffers_),
        b_(item / layout_.blocks % layout_.sequences),
        group_(item / layout_.blocks / layout_.sequences),
        blocks_(BackwardLayout::blocks_of(params, b_)),
        key_block_(item % layout_.blocks),
        query_block_((key_block_ + phase) % blocks_),
        is_first_(phase == 0),
        is_last_(phase == blocks_ - 1) {}

  void run(int64_t phase) {
    if (phase >= blocks_ || key_block_ >= blocks_) return;
    const Span queries = in_.sequences.query(b_), keys = in_.sequences.key(b_);
    constexpr int64_t kBlock = BackwardLayout::kBlock;
    const int64_t row = query_block_ * kBlock, key = key_block_ * kBlock;
    const int64_t rows = std::clamp<int64_t>(queries.length - row, 0, kBlock);
    const int64_t count = std::clamp<int64_t>(keys.length - key, 0, kBlock);
    const KeyRange seen = visible_to_rows(in_.rule, {row, row + rows}, queries.length, keys.length);
    const bool meet = rows > 0 && seen.begin < key + count && seen.end > key && count > 0;
    if (meet || is_first_ || is_last_) {
      group_rows_ = {group_ * layout_.group_size, row, std::max<int64_t>(rows, 1), 0,
                     layout_.group_size * rows};
      std::fill_n(buffers_.key_gradient, count * tiles_.width(), C{0});
      std::fill_n(buffers_.value_gradient, count * tiles_.value_width(), C{0});
      tiles_.set_keys(b_, group_, key, count);
      for (int64_t first = 0; first < group_rows_.count; first += kTileRows) add_tile(first, meet);
      leave_keys(keys, key, count);
    }
    if (is_first_ && key_block_ == blocks_ - 1) blank_padding(queries, keys);
  }

 private:
  void add_tile(int64_t first, bool meet) {
    TileRows rows = group_rows_;
    rows.first = first;
    rows.count = std::min(kTileRows, group_rows_.count - first);
    std::fill_n(buffers_.query_gradient, rows.count * tiles_.width(), C{0});
    tiles_.set_rows(rows);
    const int64_t keys = std::min(
        BackwardLayout::kBlock, in_.sequences.key(b_).length - key_block_ * BackwardLayout::kBlock);
    for (int64_t offset = 0; meet && offset < keys; offset += kTileKeys) {
      if (tiles_.differentiate(offset)) add_products(offset);
    }
    leave_queries(rows);
  }

  void add_products(int64_t offset) {
    const TileView& view = tiles_.view;
    // dQ, a block of query rows at a time
    for (int64_t r = 0; r < view.rows; r += kBlockRows) {
      const int64_t rows = std::min<int64_t>(kBlockRows, view.rows - r);
      const KeyRange seen = view.of_rows(r, r + rows);
      if (seen.begin == seen.end) continue;
      add_product({buffers_.score_gradients + r * kTileKeys + seen.begin, kTileKeys, 1}, rows,
                  {buffers_.keys, tiles_.width(), offset + seen.begin, seen.end - seen.begin},
                  buffers_.query_gradient + r * tiles_.width(), tiles_.unusual_keys,
                  tiles_.key_list(0));
    }
    // dK and dV, a block of keys at a time
    for (int64_t j = view.all.begin; j < view.all.end; j += kBlockRows) {
      const int64_t keys = std::min<int64_t>(kBlockRows, view.all.end - j);
      const RowRange seen = view.rows_that_see(j, j + keys);
      if (seen.begin == seen.end) continue;
      const int64_t at = seen.begin * kTileKeys + j, depth = seen.end - seen.begin;
      add_product({buffers_.score_gradients + at, 1, kTileKeys}, keys,
                  {tiles_.usual_queries, tiles_.width(), seen.begin, depth},
                  buffers_.key_gradient + (offset + j) * tiles_.width(), tiles_.unusual_queries,
                  tiles_.query_list());
      add_product({buffers_.weights + at, 1, kTileKeys}, keys,
                  {tiles_.usual_gradients, tiles_.value_width(), seen.begin, depth},
                  buffers_.value_gradient + (offset + j) * tiles_.value_width(),
                  tiles_.unusual_gradients, tiles_.gradient_list());
    }
  }

  // Rows first … first + depth - 1 of a packed factor.
  struct Rows {
    const C* data;
    int64_t padded, first, depth;
  };

  void add_product(const LeftFactor<C>& left, int64_t rows, const Rows& right, C* sum,
                   const UnusualRows& unusual, const RowList<T>& list) {
    product<C>(rows, right.padded, left, {right.data + right.first * right.padded, right.padded},
               right.depth, sum, right.padded, Store::kAdd);
    if (unusual.count == 0) return;
    add_unusual_rows<T>(unusual, list, right.first, right.depth, rows, left, sum, right.padded);
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
    const int64_t first = in_.sequences.query(b_).first;
    for (int64_t r = 0; r < rows.count; ++r) {
      const int64_t h = rows.head(r), i = first + rows.row(r);
      leave_row(buffers_.query_gradient + r * tiles_.width(), static_cast<C>(in_.scale), in_.width,
                sums_.query.at(b_, h, i), in_.query_gradient.at(b_, h, i));
    }
  }

  void leave_keys(const Span& keys, int64_t key, int64_t count) {
    const C kept = static_cast<C>(dropout_scale(in_.dropout));
    for (int64_t j = 0; j < count; ++j) {
      const int64_t row = keys.first + key + j;
      leave_row(buffers_.key_gradient + j * tiles_.width(), static_cast<C>(in_.scale), in_.width,
                sums_.key.at(b_, group_, row), in_.key_gradient.at(b_, group_, row));
      leave_row(buffers_.value_gradient + j * tiles_.value_width(), kept, in_.value_width,
                sums_.value.at(b_, group_, row), in_.value_gradient.at(b_, group_, row));
    }
  }

  // Rows and keys that do not exist.
  void blank_padding(const Span& queries, const Span& keys) {
    const T zero = from_compute<T>(0);
    for (int64_t n = 0; n < layout_.group_size; ++n) {
      for (int64_t i = queries.length; i < queries.rows; ++i) {
        std::fill_n(in_.query_gradient.at(b_, group_ * layout_.group_size + n, queries.first + i),
                    in_.width, zero);
      }
    }
    for (int64_t j = keys.length; j < keys.rows; ++j) {
      std::fill_n(in_.key_gradient.at(b_, group_, keys.first + j), in_.width, zero);
      std::fill_n(in_.value_gradient.at(b_, group_, keys.first + j), in_.value_width, zero);
    }
  }

  const BackwardParams<T>& in_;
  const BackwardLayout layout_;
  const GradientSums<T> sums_;
  Arena arena_;
  BackwardBuffers<T> buffers_;
  Differentiator<T> tiles_;
  const int64_t b_, group_, blocks_, key_block_, query_block_;
  const bool is_first_, is_last_;
  TileRows group_rows_;
};

// The gradient of the bias entries of one (sequence, head) of the bias, summed in order over all
// sequences, heads, rows and columns that share them.
template <typename T>
void bias_gradient(const BackwardParams<T>& p, int64_t item, const Memory& memory) {
  using C = Compute<T>;
  Arena arena(memory.scratch);
  BackwardBuffers<T> buffers(arena, p);
  Differentiator<T> tiles(p, buffers);
  const BiasItems items(p);
  const BiasItems::Place place = items.place(item);
  for (int64_t b = place.b; b < p.sequences.count; b += items.sequences) {
    const int64_t length = p.sequences.query(b).length, keys = p.sequences.key(b).length;
    const int64_t end = std::min(length, place.rows.end);
    for (int64_t h = place.h; h < p.heads; h += items.heads) {
      for (int64_t key = 0; key < keys; key += kTileKeys) {
        tiles.set_keys(b, p.group_of(h), key, std::min(kTileKeys, keys - key));
        for (int64_t row = place.rows.begin; row < end; row += kTileRows) {
          tiles.set_rows({h, row, end - row, 0, std::min(kTileRows, end - row)});
          if (!tiles.differentiate(0)) continue;
          for (int64_t r = 0; r < tiles.view.rows; ++r) {
            const KeyRange& range = tiles.view.row[r];
            const C* from = buffers.score_gradients + r * kTileKeys;
            C* to = p.bias_gradient.at(b, h, row + r) + key * p.bias_gradient.column;
            for (int64_t j = range.begin; j < range.end; ++j) {
              to[j * p.bias_gradient.column] += from[j];
            }
          }
        }
      }
    }
  }
}

template <typename T>
void backward_of(const void* erased, size_t phase, int64_t item, const Memory& memory) {
  const auto& params = *static_cast<const BackwardParams<T>*>(erased);
  const BackwardLayout layout(params);
  if (static_cast<int64_t>(phase) < layout.blocks) {
    InputGradients<T>(params, static_cast<int64_t>(phase), item, memory)
        .run(static_cast<int64_t>(phase));
  } else {
    bias_gradient(params, item, memory);
  }
}

void run_backward(ElementType type, const void* params, size_t phase, int64_t item,
                  const Memory& memory) {
  switch (type) {
    case ElementType::kFloat:
      return backward_of<float>(params, phase, item, memory);
    case ElementType::kDouble:
      return backward_of<double>(params, phase, item, memory);
    case ElementType::kBFloat16:
      return backward_of<BFloat16>(params, phase, item, memory);
    case ElementType::kHalf:
      return backward_of<Half>(params, phase, item, memory);
  }
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
void run(const BackwardParams<T>& params, size_t phase, int64_t item, const Memory& memory) {
  HWY_DYNAMIC_DISPATCH(cpu::run_backward)(kElementType<T>, &params, phase, item, memory);
}

template Plan plan(const BackwardParams<float>&);
template Plan plan(const BackwardParams<double>&);
template Plan plan(const BackwardParams<BFloat16>&);
template Plan plan(const BackwardParams<Half>&);
template void run(const BackwardParams<float>&, size_t, int64_t, const Memory&);
template void run(const BackwardParams<double>&, size_t, int64_t, const Memory&);
template void run(const BackwardParams<BFloat16>&, size_t, int64_t, const Memory&);
template void run(const BackwardParams<Half>&, size_t, int64_t, const Memory&);

}  // namespace headwise::kernels
#endif  // HWY_ONCE
