// How a decoding step is cut into items, and what lies in its memory.
#pragma once

#include <algorithm>

#include "csrc/kernels/transformer/cpu/choices.h"
#include "csrc/kernels/transformer/cpu/layout.h"

namespace headwise::kernels::cpu {

template <typename C>
struct DecodeLayout {
  static constexpr int64_t kRows = 96;        // of a block, on their way through the layers
  static constexpr int64_t kOutputRows = 48;  // of a block, before the vocabulary
  static constexpr int64_t kChunk = 512;      // pieces whose scores are held at once

  int64_t blocks, output_blocks, hidden_stride;

  explicit DecodeLayout(const DecodeStepParams<C>& in)
      : blocks(divide_up(in.rows, kRows)),
        output_blocks(divide_up(in.rows, kOutputRows)),
        hidden_stride(padded<C>(in.stack.width) + kRoomForOne<C>) {}
};

/// Of a block of rows before the vocabulary.
template <typename C>
struct OutputScratch {
  C* scores;               // (rows, kChunk)
  RowChoices<C>* choices;  // (rows)
  size_t bytes;

  OutputScratch(const DecodeStepParams<C>& in, void* memory) {
    using Layout = DecodeLayout<C>;
    const int64_t rows = std::min(Layout::kOutputRows, in.rows);
    Arena arena(memory);
    scores = arena.take<C>(rows * Layout::kChunk);
    choices = arena.take<RowChoices<C>>(rows);
    bytes = arena.bytes();
  }
};

/// Of a block of rows in the layers.
template <typename C>
struct LayersScratch {
  Arena arena;
  BlockScratch<C> rows;
  const C** past;
  C* scores;

  LayersScratch(const DecodeStepParams<C>& in, void* memory)
      : arena(memory), rows(in.stack, std::min(DecodeLayout<C>::kRows, in.rows), arena) {
    past = arena.take<const C*>(divide_up(in.position + 1, 4) * 4);
    const int64_t keys = std::max(padded<C>(in.longest), padded<C>(in.position + 1));
    scores = arena.take<C>(kMostShared * keys);
  }
};

}  // namespace headwise::kernels::cpu
