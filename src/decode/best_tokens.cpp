#include "src/decode/best_tokens.h"

#include <limits>
#include <stdexcept>
#include <string>

namespace headwise::decode {

namespace {

// A log-softmax in half precision may end a little above 0.
constexpr float kLargest = 1e-2f;

}  // namespace

int64_t best_tokens(std::span<const float> row, const TokenFilter& filter,
                    std::span<TokenPick> picks) {
  size_t count = 0;
  float floor = -std::numeric_limits<float>::infinity();
  for (size_t id = 0; id < row.size(); ++id) {
    const float value = row[id];
    if (value <= floor) continue;  // not `!(value > floor)`: NaN must go on to the next line
    if (!(value <= kLargest)) {
      throw std::runtime_error("token " + std::to_string(id) + " has log-probability " +
                               std::to_string(value) + "; needed: at most 0");
    }
    if (filter.banned[id] || static_cast<int32_t>(id) == filter.also_banned) continue;
    size_t place = count < picks.size() ? count++ : count - 1;
    for (; place > 0 && picks[place - 1].log_probability < value; --place) {
      picks[place] = picks[place - 1];
    }
    picks[place] = {value, static_cast<int32_t>(id)};
    if (count == picks.size()) floor = picks.back().log_probability;
  }
  return static_cast<int64_t>(count);
}

}  // namespace headwise::decode
