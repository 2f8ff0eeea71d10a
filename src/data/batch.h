// What the model is fed: sentence pairs end to end, without padding.
#pragma once

#include <cstdint>
#include <vector>

namespace headwise::data {

using Ids = std::vector<int32_t>;

/// One side of a batch in packed form: the tokens of all sentences one after another.
struct Packed {
  std::vector<int64_t> tokens;     // (N)
  std::vector<int64_t> positions;  // (N) index of each token inside its sentence
  std::vector<int32_t> starts;     // (B + 1) first token of each sentence; starts[B] = N
  int64_t longest = 0;
};

/// B sentence pairs. Source: pieces + end. Target input: begin + pieces. Labels: pieces + end.
struct Batch {
  Packed source;
  Packed target;                // target input
  std::vector<int64_t> labels;  // (N_target) next token at each target position
  std::vector<int64_t> lines;   // (B) 1-based line numbers in the training files
  int64_t size() const { return static_cast<int64_t>(lines.size()); }
};

/// At most `parts` batches of about equally many tokens, none empty: the sentences in their order.
std::vector<Batch> split(const Batch& batch, int64_t parts);

/// The sentences of a batch, and then all of them again.
Batch twice(const Batch& batch);

}  // namespace headwise::data
