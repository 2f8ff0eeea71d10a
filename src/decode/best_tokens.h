// The most probable tokens of one row of log-probabilities, in a fixed order.
#pragma once

#include <cstdint>
#include <span>

namespace headwise::decode {

struct TokenPick {
  float log_probability = 0;
  int32_t token = 0;
};

struct TokenFilter {
  std::span<const char> banned;  // one flag per token of the vocabulary
  int32_t also_banned = -1;      // the end token of a row that may not end yet; -1: none
};

/// Fills `picks` with the most probable tokens of `row`, best first, equal ones by lower id.
///
/// One pass, since only few tokens of a long row ever beat the worst pick. Banned tokens and
/// impossible ones (-inf) are left out, so fewer than picks.size() may come back.
/// @return how many picks were filled.
/// @throws std::runtime_error for a value that is no log-probability: NaN, or above 0.
int64_t best_tokens(std::span<const float> row, const TokenFilter& filter,
                    std::span<TokenPick> picks);

}  // namespace headwise::decode
