// A whole encoder-decoder Transformer for inference: weights packed once, then the encoder and each
// decoding step are a few kernel calls. No op of the dispatcher: it keeps a state, and no gradient
// flows. Glossary: B sentences, R live rows, E width, F feed-forward width, H/G query and key/value
// heads, D head width, V target pieces.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace headwise {

/// weight (out, in), bias (out) or undefined.
struct LinearWeights {
  at::Tensor weight, bias;
};

/// Undefined: no norm.
struct NormWeights {
  at::Tensor weight, bias;  // (E)
  double epsilon = 0;
};

struct AttentionWeights {
  int64_t heads = 0, kv_heads = 0, head_width = 0;
  bool rotary = false;
  LinearWeights query, key, value;  // (H D, E), (G D, E)
  LinearWeights output;             // (E, H D); undefined: the heads are the output
  NormWeights norm;
};

struct LayerWeights {
  AttentionWeights self, cross;  // cross: of the decoder
  LinearWeights in, out;         // (F, E), (E, F)
  NormWeights norm;              // of the feed-forward branch
};

struct StackWeights {
  std::vector<LayerWeights> layers;
  NormWeights final_norm;
  at::Tensor embedding;  // (pieces, E)
};

/// All tensors float32 or all float64, on the CPU.
struct TransformerWeights {
  bool pre_norm = true;  // norm before each branch, or after its sum
  bool gelu = false;     // or ReLU
  double embedding_scale = 1;
  StackWeights encoder, decoder;
  at::Tensor output;  // (V, E)
  /// (length, E) to be added to embeddings; empty: nothing is.
  std::function<at::Tensor(int64_t length)> positions;
  /// Cosine and sine (length, D / 2) of rotary self-attentions.
  std::function<std::pair<at::Tensor, at::Tensor>(int64_t length, int64_t head_width)> rotation;
};

/// Source sentences end to end.
struct SourceTokens {
  std::vector<int64_t> tokens;     // (N)
  std::vector<int64_t> starts{0};  // (B + 1)
};

/// A step of R live rows.
struct DecodeRows {
  std::span<const int64_t> tokens;   // (R): the token each row was given last
  std::span<const int64_t> parents;  // (R): its row of the step before, at first its sentence
  std::span<const char> may_end;     // (R): 0 = the end token is no choice
  std::span<const int32_t> forbidden;
  int32_t eos = -1;
  int64_t wanted = 1;  // choices for each row; more than V are V
};

/// What may follow each row, best first, of equal scores the lower token. NaN where a score is
/// none.
struct DecodeChoices {
  struct Choice {
    double log_probability = 0;
    int32_t token = 0;
  };
  int64_t wanted = 0;           // K
  std::vector<Choice> choices;  // (R, K)
  std::vector<int64_t> counts;  // (R): how many of its K a row has
};

/// The decoding of some sentences. One thread at a time steps it.
class Decoding {
 public:
  virtual ~Decoding() = default;
  /// @throws c10::Error, leaving everything as it was, for rows, tokens, parents or a position that
  ///   do not exist.
  virtual void step(const DecodeRows& rows, DecodeChoices& choices) = 0;
  /// A step whose result is the probability of every piece, (R, V) of float32 or float64; NaN where
  /// a score is. It lives until the next step. may_end, forbidden, eos and wanted change nothing.
  /// @throws as step.
  virtual at::Tensor probabilities(const DecodeRows& rows) = 0;
  virtual int64_t position() const = 0;  // steps made
  virtual int64_t bytes() const = 0;     // of keys, values and probabilities
};

class PackedTransformer {
 public:
  virtual ~PackedTransformer() = default;
  /// Encodes. `rows`: the most rows ever alive; `capacity`: the most tokens a row is given. Many
  /// threads may do so at once. The transformer must outlive the result.
  virtual std::unique_ptr<Decoding> start(const SourceTokens& source, int64_t rows,
                                          int64_t capacity) const = 0;
  virtual int64_t pieces() const = 0;  // V
};

/// Copies weights, except embeddings of contiguous memory: they are read where they lie.
/// @throws c10::Error for tensors of other types or shapes than stated.
std::unique_ptr<PackedTransformer> pack_transformer(const TransformerWeights& weights);

}  // namespace headwise
