// What a MultiHeadAttention is made of.
#pragma once

#include <cstdint>

namespace headwise::nn {

struct MultiHeadAttentionOptions {
  int64_t embed_dim = 0;       // E, width of queries and outputs
  int64_t num_heads = 1;       // H
  int64_t num_kv_heads = 0;    // G; 0 = num_heads; must divide num_heads
  int64_t head_dim = 0;        // D; 0 = embed_dim / num_heads, which must then divide
  int64_t kdim = 0, vdim = 0;  // widths of key and value inputs; 0 = embed_dim
  bool bias = true;            // of W_Q, W_K, W_V and W_O
  double dropout = 0.0;        // of the attention weights, in training mode only
  bool out_proj = true;  // false: W_O is the identity, needs num_heads * head_dim == embed_dim
  bool rotary = false;   // turn queries and keys by position (rotary.h); self-attention only
};

/// The options with every 0 that stands for a default replaced by its value.
/// @throws c10::ValueError naming the numbers of an impossible combination.
MultiHeadAttentionOptions resolved(MultiHeadAttentionOptions options);

}  // namespace headwise::nn
