// The backward pass cut into items, and what an item keeps in memory.
//
// Rows and keys of a sequence are cut into n equal blocks. In phase p, item k adds what query block
// (k + p) mod n and key block k contribute to each other's gradients: no two items of a phase share
// a block, every block meets every other once, and the order of all sums is fixed.
#pragma once

#include <algorithm>
#include <type_traits>

#include "csrc/kernels/attention/cpu/tiles.h"
#include "csrc/kernels/cpu/arena.h"

namespace headwise::kernels::cpu {

struct BackwardLayout {
  static constexpr int64_t kBlock = 256;  // query rows of one head, and keys

  int64_t sequences, groups, group_size;
  int64_t blocks;  // of the longest sequence

  template <typename T>
  explicit BackwardLayout(const AttentionInputs<T>& in)
      : sequences(in.sequences.count),
        groups(in.kv_heads),
        group_size(in.kv_heads == 0 ? 1 : in.heads / in.kv_heads),
        blocks(blocks_of(in.sequences.query_rows, in.sequences.key_rows)) {}

  static int64_t blocks_of(int64_t rows, int64_t keys) {
    return std::max<int64_t>(1, divide_up(std::max(rows, keys), kBlock));
  }
  /// Counted by what exists, so that padding changes no bit.
  template <typename T>
  static int64_t blocks_of(const AttentionInputs<T>& in, int64_t b) {
    return blocks_of(in.sequences.query(b).length, in.sequences.key(b).length);
  }
  int64_t items() const { return sequences * groups * blocks; }
};

/// Sums of the gradients between phases, where the results have too few bits to hold them.
template <typename T>
struct GradientSums {
  using C = Compute<T>;
  View<C> query, key, value;

  GradientSums(const BackwardParams<T>& p, const BackwardLayout& layout, void* workspace) {
    if constexpr (std::is_same_v<T, C>) {
      query = p.query_gradient;
      key = p.key_gradient;
      value = p.value_gradient;
    } else if (layout.blocks > 1) {
      Arena arena(workspace);
      query = take(arena, p.sequences.query_starts, p.sequences.query_rows, p, p.heads, p.width);
      key = take(arena, p.sequences.key_starts, p.sequences.key_rows, p, p.kv_heads, p.width);
      value =
          take(arena, p.sequences.key_starts, p.sequences.key_rows, p, p.kv_heads, p.value_width);
      bytes = arena.bytes();
    }
  }

  size_t bytes = 0;

 private:
  static View<C> take(Arena& arena, const int64_t* starts, int64_t rows, const BackwardParams<T>& p,
                      int64_t heads, int64_t width) {
    const int64_t count = p.sequences.count;
    const int64_t total = starts != nullptr ? starts[count] : count * rows;
    View<C> view;
    view.data = arena.template take<C>(total * heads * width);
    view.batch = starts != nullptr ? 0 : rows * heads * width;
    view.head = width;
    view.row = heads * width;
    view.column = 1;
    return view;
  }
};

/// Scratch of an item: key tiles of one block, one tile of query rows, and their scores.
template <typename T>
struct BackwardBuffers {
  using C = Compute<T>;

  const T **key_rows, **value_rows;              // of the block
  const T **query_rows, **gradient_rows;         // of a tile
  C *keys, *values;                              // of the block, if not read in place
  C* usual_keys;                                 // of the block, without what is not finite
  C *queries, *gradients;                        // of a tile, likewise
  C *transposed_queries, *transposed_gradients;  // of a tile
  C *weights, *score_gradients, *elements;       // (kTileKeys, kTileRows)
  uint32_t* words;                               // (kTileKeys / 2, kTileRows)
  C *lse, *shift;                                // (kTileRows)
  C* query_gradient;                             // of a tile
  C *key_gradient, *value_gradient;              // of the block
  int32_t *unusual_keys, *unusual_queries, *unusual_gradients;

  BackwardBuffers(Arena& arena, const BackwardParams<T>& in) {
    const int64_t width = padded<C>(in.width), value_width = padded<C>(in.value_width);
    const int64_t block = std::min(BackwardLayout::kBlock, in.sequences.key_rows);
    const int64_t group = in.kv_heads == 0 ? 1 : in.heads / in.kv_heads;
    const int64_t rows = padded<C>(std::min(kTileRows, group * in.sequences.query_rows));
    const int64_t tile_keys = std::min(kTileKeys, in.sequences.key_rows);
    key_rows = arena.take<const T*>(block);
    value_rows = arena.take<const T*>(block);
    query_rows = arena.take<const T*>(rows);
    gradient_rows = arena.take<const T*>(rows);
    keys = arena.take<C>(block * width);
    values = arena.take<C>(block * value_width);
    usual_keys = arena.take<C>(block * width);
    queries = arena.take<C>(rows * width);
    gradients = arena.take<C>(rows * value_width);
    transposed_queries = arena.take<C>(rows * width);
    transposed_gradients = arena.take<C>(rows * value_width);
    weights = arena.take<C>(tile_keys * kTileRows);
    score_gradients = arena.take<C>(tile_keys * kTileRows);
    // Elements are transposed in whole vectors of keys.
    const int64_t has_elements = in.mask.view.data != nullptr || in.bias.data != nullptr;
    elements = arena.take<C>(has_elements * kTileKeys * kTileRows);
    words = arena.take<uint32_t>(in.dropout.threshold != 0 ? kTileKeys / 2 * kTileRows : 0);
    lse = arena.take<C>(kTileRows);
    shift = arena.take<C>(kTileRows);
    query_gradient = arena.take<C>(rows * width);
    key_gradient = arena.take<C>(block * width);
    value_gradient = arena.take<C>(block * value_width);
    unusual_keys = arena.take<int32_t>(block);
    unusual_queries = arena.take<int32_t>(rows);
    unusual_gradients = arena.take<int32_t>(rows);
  }
};

/// Items of the bias gradient: a (sequence, head) of the bias and, where rows have entries of their
/// own, a block of them.
struct BiasItems {
  struct Place {
    int64_t b, h;
    RowRange rows;
  };

  int64_t sequences, heads;  // that the bias tells apart
  int64_t blocks, block_rows;

  template <typename T>
  explicit BiasItems(const BackwardParams<T>& p)
      : sequences(p.bias_gradient.batch == 0 ? 1 : p.sequences.count),
        heads(p.bias_gradient.head == 0 ? 1 : p.heads),
        blocks(p.bias_gradient.row == 0
                   ? 1
                   : std::max<int64_t>(1, divide_up(p.sequences.query_rows, kTileRows * 4))),
        block_rows(blocks == 1 ? p.sequences.query_rows : kTileRows * 4) {}

  int64_t count() const { return sequences * heads * blocks; }
  Place place(int64_t item) const {
    const int64_t block = item % blocks;
    return {item / blocks / heads,
            item / blocks % heads,
            {block * block_rows, (block + 1) * block_rows}};
  }
};

}  // namespace headwise::kernels::cpu
