// The best tokens of a row so far.
#pragma once

#include <cstdint>
#include <limits>

#include "csrc/kernels/transformer/params.h"

namespace headwise::kernels::cpu {

template <typename C>
struct RowChoices {
  TokenChoice<C>* choices = nullptr;  // best first; scores instead of log-probabilities
  int64_t count = 0;
  C floor = -std::numeric_limits<C>::infinity();    // what a score must pass to be chosen
  C largest = -std::numeric_limits<C>::infinity();  // of all scores
  C sum = 0;                                        // of exp(score - largest)

  /// Of equal scores the one inserted first stays before the other.
  void insert(C score, int32_t token, int64_t wanted) {
    int64_t place = count < wanted ? count++ : count - 1;
    for (; place > 0 && choices[place - 1].log_probability < score; --place) {
      choices[place] = choices[place - 1];
    }
    choices[place] = {score, token};
    if (count == wanted) floor = choices[count - 1].log_probability;
  }
};

}  // namespace headwise::kernels::cpu
