// Greedy and beam search over a step function. Knows tensors and scores, no model and no text.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace headwise::decode {

/// One step of any autoregressive model over R live rows.
///
/// `tokens` (R) int64: the token each row was given last. `parents` (R) int64: which row of the
/// previous step each row continues (at the first step: which sentence it belongs to); rows that are
/// not named have left the batch and never come back. Returns (R, V) log-probabilities.
using StepFunction = std::function<at::Tensor(const at::Tensor& tokens, const at::Tensor& parents)>;

struct SearchOptions {
  int64_t beam = 5;  // 1 = greedy
  double length_penalty = 1.0;
  int64_t nbest = 1;        // <= beam
  int64_t min_length = 0;   // pieces before the end token may come
  int32_t bos = 2, eos = 3;
  std::vector<int32_t> forbidden;  // ids that never come out (pad, bos, …)
};

/// A finished (or, at the length limit, cut-off) output.
struct Hypothesis {
  std::vector<int32_t> ids;  // forced prefix included, end token not
  double log_probability = 0;  // raw sum over chosen tokens, end token included, forced prefix not
  double score = 0;            // log_probability / length^length_penalty; length counts what the sum counts
  bool finished = true;        // false: cut off at max_length without an end token
};

/// One sentence's limits.
struct SearchRequest {
  int64_t max_length = 0;          // pieces, forced prefix not counted; 0 gives an empty output
  std::vector<int32_t> prefix;     // forced start
};

/// Translates requests.size() sentences together; finished sentences leave the batch at once.
///
/// Each sentence keeps `beam` live rows; an end token among the best 2·beam candidates moves that
/// hypothesis to the finished list; a sentence is done when no live row can beat its nbest-th finished
/// one, or at max_length. Results never depend on the other sentences of the batch.
/// @return for each sentence its `nbest` best hypotheses, best first.
/// @throws std::invalid_argument for impossible options (beam < 1, nbest > beam …).
std::vector<std::vector<Hypothesis>> search(const StepFunction& step,
                                            const std::vector<SearchRequest>& requests,
                                            const SearchOptions& options);

}  // namespace headwise::decode
