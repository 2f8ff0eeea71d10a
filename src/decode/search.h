// Greedy and beam search over a step function. Knows scores, no model and no text.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace headwise::decode {

/// What one step of any autoregressive model is asked, for R live rows.
struct StepRows {
  std::span<const int64_t> tokens;  // (R): the token each row was given last
  // (R): which row of the previous step each row continues (at the first step: which sentence it
  // belongs to); rows that are not named have left the batch and never come back.
  std::span<const int64_t> parents;
  std::span<const char> may_end;       // (R): 0 = the end token is no pick
  std::span<const int32_t> forbidden;  // ids that are no picks
  int64_t wanted = 1;                  // picks of each row
};

struct TokenPick {
  double log_probability = 0;
  int32_t token = 0;
};

/// The most probable tokens of each row, best first, equal ones by lower id. Impossible ones (-inf)
/// are left out, so that a row may have fewer than `width`.
struct StepPicks {
  int64_t vocabulary = 0;
  int64_t width = 0;             // room for the picks of a row: `wanted`, or the vocabulary if less
  std::vector<TokenPick> picks;  // (R, width)
  std::vector<int64_t> counts;   // (R)
};

using StepFunction = std::function<void(const StepRows& rows, StepPicks& picks)>;

struct SearchOptions {
  int64_t beam = 5;  // 1 = greedy: the best token of each step, done at the first end token
  double length_penalty = 1.0;
  int64_t nbest = 1;  // <= beam
  // A sentence is done when so many hypotheses have ended with a token among the `beam` best of a
  // step; 0: only when no other can be better.
  int64_t stop_after = 0;  // 0, or >= nbest
  int64_t min_length = 0;  // pieces before the end token may come, forced prefix not counted
  int32_t bos = 2, eos = 3;
  std::vector<int32_t> forbidden;  // ids that never come out (pad, bos, …)
};

/// A finished (or, at the length limit, cut-off) output.
struct Hypothesis {
  std::vector<int32_t> ids;    // forced prefix included, end token not
  double log_probability = 0;  // raw sum over chosen tokens, end token included, forced prefix not
  double score = 0;  // log_probability / length^length_penalty; length counts what the sum counts
  bool finished = true;  // false: cut off at max_length without an end token
};

/// One sentence's limits.
struct SearchRequest {
  // Predicted tokens at most, the end token being one of them; the forced prefix is not counted.
  // 0 gives an output without a step: the prefix alone.
  int64_t max_length = 0;
  std::vector<int32_t> prefix;  // forced start
};

/// Translates requests.size() sentences together; finished sentences leave the batch at once.
///
/// Each sentence keeps `beam` live rows; an end token among the best 2·beam candidates moves that
/// hypothesis to the finished list; a sentence is done when no live row can beat its nbest-th
/// finished one, after `stop_after` of them if given, or at max_length, where its live rows join
/// the list as they are. So a beam that is never full finds the best of all outputs. Ties go to the
/// lower row, then the lower id, and among outputs to the one that ended first. Results never
/// depend on the other sentences of the batch.
/// @return for each sentence its `nbest` best hypotheses, best first; fewer where no more exist.
/// @throws std::invalid_argument for impossible options (beam < 1, nbest > beam …).
/// @throws std::runtime_error naming the step that gave NaN, a value above 0 or no possible token.
std::vector<std::vector<Hypothesis>> search(const StepFunction& step,
                                            const std::vector<SearchRequest>& requests,
                                            const SearchOptions& options);

}  // namespace headwise::decode
