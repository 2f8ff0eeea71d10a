// The forward pass cut into items, and what an item keeps in memory.
#pragma once

#include <algorithm>
#include <type_traits>

#include "csrc/kernels/attention/cpu/tiles.h"
#include "csrc/kernels/cpu/arena.h"

namespace headwise::kernels::cpu {

/// One item: a block of query rows of all heads of a group, against all keys or one split of them.
struct ForwardPlace {
  int64_t b = 0, group = 0, block = 0, split = 0;
};

/// Softmax of one split of the keys, to be combined.
template <typename C>
struct ForwardPartial {
  C* largest = nullptr;  // (rows of the group)
  C* sum = nullptr;      // likewise
  C* output = nullptr;   // (rows of the group, D_v), not yet divided by the sum
};

struct ForwardLayout {
  // Decoding has few rows and many keys; they are split so that all threads find work.
  static constexpr int64_t kSplitKeys = 1024, kSplitRows = 8;

  int64_t sequences, groups, group_size, value_width;
  int64_t block_rows, blocks;  // rows of one head; with those of its group one tile, if they fit
  int64_t splits = 1;
  int64_t keys;

  template <typename T>
  explicit ForwardLayout(const AttentionInputs<T>& in)
      : sequences(in.sequences.count),
        groups(in.kv_heads),
        group_size(in.kv_heads == 0 ? 1 : in.heads / in.kv_heads),
        value_width(in.value_width),
        block_rows(std::min(std::max<int64_t>(1, kTileRows / group_size),
                            std::max<int64_t>(1, in.sequences.query_rows))),
        blocks(divide_up(in.sequences.query_rows, block_rows)),
        keys(in.sequences.key_rows) {
    if (in.sequences.query_rows <= std::min(kSplitRows, block_rows)) {
      splits = std::max<int64_t>(1, divide_up(keys, kSplitKeys));
    }
  }

  int64_t items() const { return sequences * groups * blocks * splits; }
  int64_t combined_items() const { return splits == 1 ? 0 : sequences * groups; }
  int64_t rows() const { return group_size * block_rows; }

  ForwardPlace place(int64_t item) const {
    // Neighbours in memory follow each other: the heads of a sequence share its cache lines, the
    // blocks of a head its keys.
    ForwardPlace place;
    place.split = item % splits;
    item /= splits;
    place.block = item % blocks;
    item /= blocks;
    place.group = item % groups;
    place.b = item / groups;
    return place;
  }

  KeyRange keys_of_split(int64_t split, const KeyRange& range) const {
    if (splits == 1) return range;
    const KeyRange cut{std::max(range.begin, split * kSplitKeys),
                       std::min(range.end, (split + 1) * kSplitKeys)};
    return cut.begin < cut.end ? cut : KeyRange{};
  }

  template <typename C>
  size_t workspace_bytes() const {
    return splits == 1 ? 0 : sequences * groups * splits * partial_size() * sizeof(C);
  }
  template <typename C>
  ForwardPartial<C> partial(const ForwardPlace& place, void* workspace) const {
    if (splits == 1) return {};
    const int64_t index = (place.b * groups + place.group) * splits + place.split;
    C* start = static_cast<C*>(workspace) + index * partial_size();
    return {start, start + rows(), start + 2 * rows()};
  }

 private:
  int64_t partial_size() const { return rows() * (value_width + 2); }
};

template <typename T>
struct ForwardBuffers {
  using C = Compute<T>;

  const T **key_rows, **value_rows;  // of a tile
  const T** query_rows;              // of a tile
  C *keys, *values;                  // of a tile, copied if they cannot be read in place
  C* transposed_queries;             // of a tile
  uint32_t* query_pairs;             // of a tile, BFloat16 only
  C *scores, *elements;              // (kTileKeys, kTileRows)
  uint32_t* words;                   // (kTileKeys / 2, kTileRows)
  int32_t* unusual;
  C* output;                 // (kTileRows, D_v)
  C *largest, *sum, *decay;  // (kTileRows)

  ForwardBuffers(Arena& arena, const AttentionInputs<T>& in, const ForwardLayout& layout) {
    const int64_t width = padded<C>(in.width), value_width = padded<C>(in.value_width);
    const int64_t tile_keys = std::min(kTileKeys, layout.keys);
    const int64_t tile_rows = padded<C>(std::min(kTileRows, layout.rows()));
    key_rows = arena.take<const T*>(tile_keys);
    value_rows = arena.take<const T*>(tile_keys);
    query_rows = arena.take<const T*>(tile_rows);
    keys = arena.take<C>(tile_keys * width);
    values = arena.take<C>(tile_keys * value_width);
    transposed_queries = arena.take<C>(tile_rows * width);
    query_pairs = arena.take<uint32_t>(
        std::is_same_v<T, BFloat16> ? tile_rows * padded<C>(divide_up(in.width, 2)) : 0);
    // Elements are transposed in whole vectors of keys.
    const int64_t has_elements = in.mask.view.data != nullptr || in.bias.data != nullptr;
    scores = arena.take<C>(tile_keys * kTileRows);
    elements = arena.take<C>(has_elements * kTileKeys * kTileRows);
    words = arena.take<uint32_t>(in.dropout.threshold != 0 ? kTileKeys / 2 * kTileRows : 0);
    unusual = arena.take<int32_t>(tile_keys);
    output = arena.take<C>(tile_rows * value_width);
    largest = arena.take<C>(kTileRows);
    sum = arena.take<C>(kTileRows);
    decay = arena.take<C>(kTileRows);
  }
};

}  // namespace headwise::kernels::cpu
