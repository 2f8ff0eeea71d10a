// What the kernels of a whole Transformer see: its weights, packed once, and one call of the
// encoder or of a decoding step. Inference only. Glossary: B sentences, N source tokens, R live
// rows, E width, F feed-forward width, H/G query and key/value heads, D head width, V target
// pieces. C is float or double.
//
// Rows of numbers lie in whole 64 bytes and what lies past their width is 0: E is padded, F is, V
// is, and each head by itself.
#pragma once

#include <cstdint>

#include "csrc/kernels/plan.h"

namespace headwise::kernels {

/// The right factor of rows x matrix, in panels of columns (transformer/pack.h). Its last row is
/// the bias, if there is one: the rows it meets end with a 1.
template <typename C>
struct PackedMatrix {
  const C* panels = nullptr;
  int64_t depth = 0;  // rows, padded; the bias is one of them
  int64_t width = 0;  // columns, padded
};

/// Layer norm (Ba et al. 2016). Null: none.
template <typename C>
struct LayerNorm {
  const C* weight = nullptr;  // (E), padded
  const C* bias = nullptr;    // (E), padded
  double epsilon = 0;
};

/// Queries come scaled: the factor 1 / sqrt(D) is part of their matrix.
template <typename C>
struct PackedAttention {
  int64_t heads = 0, kv_heads = 0, head_width = 0;  // H, G, D
  bool rotary = false;
  PackedMatrix<C> query;       // (E, H D)
  PackedMatrix<C> key, value;  // (E, G D)
  PackedMatrix<C> output;      // (H D, E)
  LayerNorm<C> norm;
};

enum class ActivationKind { kRelu, kGelu };

template <typename C>
struct PackedLayer {
  PackedAttention<C> self, cross;  // cross: of the decoder
  PackedMatrix<C> in, out;         // (E, F), (F, E)
  LayerNorm<C> norm;               // of the feed-forward branch
};

/// Encoder or decoder.
template <typename C>
struct PackedStack {
  int64_t width = 0, feed_forward = 0;  // E, F
  bool pre_norm = false;                // or each norm follows the sum
  ActivationKind activation = ActivationKind::kRelu;
  int64_t layer_count = 0;
  const PackedLayer<C>* layers = nullptr;
  LayerNorm<C> final_norm;
  const C* embedding = nullptr;  // (pieces, E), not padded
  double embedding_scale = 1;
};

/// Cosine and sine of each position's angles, (positions, D / 2).
template <typename C>
struct RotaryTable {
  const C* cosine = nullptr;
  const C* sine = nullptr;
};

/// What depends on positions: rows for as many as a call needs.
template <typename C>
struct PositionTables {
  const C* sinusoidal = nullptr;           // (positions, E), not padded; null: none
  const RotaryTable<C>* rotary = nullptr;  // of each layer's self-attention; null: none
};

/// Keys and values of the source, made once for all steps. Keys of sentence b lie transposed, (G,
/// D, T) with T padded, from number padded_starts[b] G D on.
template <typename C>
struct SourceKeys {
  C* keys = nullptr;
  C* values = nullptr;  // (N, G D)
};

/// Where the source sentences lie.
struct SourceLayout {
  int64_t sentences = 0;                   // B
  const int64_t* starts = nullptr;         // (B + 1)
  const int64_t* padded_starts = nullptr;  // (B + 1): every sentence takes whole 64 bytes
};

/// The encoder, and the keys and values that the decoder's layers make of what it says.
template <typename C>
struct EncodeParams {
  PackedStack<C> stack;
  SourceLayout source;
  const int64_t* tokens = nullptr;  // (N)
  PositionTables<C> tables;
  // Item i encodes sentences blocks[i] … blocks[i + 1] - 1.
  int64_t block_count = 0;
  const int64_t* blocks = nullptr;
  int64_t most_tokens = 0, longest = 0;  // tokens of a block, of a sentence, at most
  int64_t decoder_layers = 0;
  const PackedLayer<C>* decoder = nullptr;
  const SourceKeys<C>* results = nullptr;  // of each layer of the decoder
};

/// A token that may come next and its log-probability.
template <typename C>
struct TokenChoice {
  C log_probability = 0;
  int32_t token = 0;
};

/// One token for each of R rows, and what may follow it.
template <typename C>
struct DecodeStepParams {
  PackedStack<C> stack;
  SourceLayout source;
  int64_t longest = 0;                   // source sentence
  const SourceKeys<C>* cross = nullptr;  // of each layer
  PositionTables<C> tables;

  int64_t rows = 0, most_rows = 0, capacity = 0;  // R, its maximum, positions
  int64_t position = 0;                           // of the tokens
  const int64_t* tokens = nullptr;                // (R)
  const int32_t* sentences = nullptr;             // (R); rows of a sentence follow each other
  // Keys and values of each layer: (capacity, most_rows, 2 G D). The present position of row r is
  // written to place r.
  C* const* cache = nullptr;
  const int32_t* places = nullptr;  // (R, capacity): which row holds a position of row r

  PackedMatrix<C> output;  // (E, V)
  int64_t pieces = 0;      // V
  int64_t wanted = 0;      // K <= V choices of each row
  const int32_t* forbidden = nullptr;
  int64_t forbidden_count = 0;
  int32_t eos = -1;
  const char* may_end = nullptr;  // (R) 0: the end token is not chosen

  // Best first, of equal scores the lower token; -inf is no choice. All NaN if a score of the row
  // is.
  TokenChoice<C>* choices = nullptr;  // (R, K)
  int64_t* choice_count = nullptr;    // (R)
  // Of all pieces, instead of choices, if given: rows of output.width numbers. All NaN if a score
  // of the row is. What is asked of choices is not looked at.
  C* probabilities = nullptr;  // (R, V)
};

template <typename C>
Plan plan(const EncodeParams<C>& params);
template <typename C>
void run(const EncodeParams<C>& params, size_t phase, const ItemRange& items, const Memory& memory);

template <typename C>
Plan plan(const DecodeStepParams<C>& params);
template <typename C>
void run(const DecodeStepParams<C>& params, size_t phase, const ItemRange& items,
         const Memory& memory);

}  // namespace headwise::kernels
