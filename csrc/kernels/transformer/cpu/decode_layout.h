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
  static constexpr int64_t kFewRows = 8;      // that leave a second thread nothing but pieces

  int64_t blocks, output_blocks, chunks, parts, hidden_stride;

  explicit DecodeLayout(const DecodeStepParams<C>& in)
      : blocks(divide_up(in.rows, kRows)),
        output_blocks(divide_up(in.rows, kOutputRows)),
        chunks(divide_up(in.output.width, kChunk)),
        parts(in.rows <= kFewRows ? std::min<int64_t>(2, chunks) : 1),
        hidden_stride(padded<C>(in.stack.width) + kRoomForOne<C>) {}

  /// First chunk of a part of the vocabulary.
  int64_t begin(int64_t part) const { return chunks * part / parts; }
};

template <typename C>
struct StepWorkspace {
  C* hidden;               // (R, E)
  RowChoices<C>* rows;     // (R, parts)
  TokenChoice<C>* chosen;  // (R, parts, K)
  int64_t parts;
  size_t bytes;

  StepWorkspace(const DecodeStepParams<C>& in, const DecodeLayout<C>& layout, void* memory)
      : parts(layout.parts) {
    Arena arena(memory);
    hidden = arena.take<C>(in.rows * layout.hidden_stride);
    rows = arena.take<RowChoices<C>>(in.rows * parts);
    chosen = arena.take<TokenChoice<C>>(in.rows * parts * in.wanted);
    bytes = arena.bytes();
  }

  RowChoices<C>& row(int64_t r, int64_t part) const { return rows[r * parts + part]; }
  TokenChoice<C>* choices_of(int64_t r, int64_t part, int64_t wanted) const {
    return chosen + (r * parts + part) * wanted;
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
