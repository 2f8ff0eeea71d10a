// What lies in the memory of a block of sentences.
#pragma once

#include <algorithm>

#include "csrc/kernels/transformer/cpu/layout.h"

namespace headwise::kernels::cpu {

template <typename C>
struct EncodeScratch {
  Arena arena;
  BlockScratch<C> rows;
  C *keys, *values, *transposed, *scores;

  EncodeScratch(const EncodeParams<C>& in, void* memory)
      : arena(memory), rows(in.stack, in.most_tokens, arena) {
    const auto own = [](const PackedLayer<C>& layer) { return key_width(layer.self); };
    const auto of_decoder = [](const PackedLayer<C>& layer) { return key_width(layer.cross); };
    const int64_t own_width = widest(in.stack.layers, in.stack.layer_count, own);
    const int64_t width = std::max(own_width, widest(in.decoder, in.decoder_layers, of_decoder));
    keys = arena.take<C>(in.most_tokens * width);
    values = arena.take<C>(in.most_tokens * own_width);
    transposed = arena.take<C>(padded<C>(in.longest) * own_width);
    scores = arena.take<C>(kMostShared * padded<C>(in.longest));
  }
};

}  // namespace headwise::kernels::cpu
