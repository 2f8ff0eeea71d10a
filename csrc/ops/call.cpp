#include "csrc/ops/call.h"

#include <c10/util/Exception.h>

namespace headwise::ops {

Align parse_align(std::string_view word) {
  TORCH_CHECK_VALUE(word == "end" || word == "start", "attention: align is \"", word,
                    "\"; it must be \"end\" or \"start\"");
  return word == "end" ? Align::kEnd : Align::kStart;
}

std::string_view align_word(Align align) { return align == Align::kEnd ? "end" : "start"; }

std::optional<std::array<int64_t, 2>> parse_window(at::OptionalIntArrayRef window) {
  if (!window.has_value()) return std::nullopt;
  TORCH_CHECK_VALUE(window->size() == 2, "attention: window has ", window->size(),
                    " entries; it must be (left, right), -1 for unbounded");
  return std::array<int64_t, 2>{(*window)[0], (*window)[1]};
}

at::OptionalIntArrayRef window_list(const std::optional<std::array<int64_t, 2>>& window) {
  if (!window.has_value()) return std::nullopt;
  return at::OptionalIntArrayRef(at::IntArrayRef(*window));
}

}  // namespace headwise::ops
