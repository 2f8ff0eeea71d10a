// Text as code points, with whitespace and lower case as Python defines them, since the scores are
// to equal those of a Python program.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace headwise::metrics {

/// Each malformed piece of UTF-8 becomes one U+FFFD.
std::u32string code_points(std::string_view utf8);

/// Lower case of the root locale, a final sigma and other special cases included.
std::u32string lower_case(const std::u32string& text);

/// What str.split() and str.rstrip() take for whitespace.
bool is_space(char32_t c);

/// The parts between runs of whitespace; they point into `text`.
std::vector<std::u32string_view> split(std::u32string_view text);

}  // namespace headwise::metrics
