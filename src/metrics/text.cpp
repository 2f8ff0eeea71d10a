#include "src/metrics/text.h"

#include <unicode/locid.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include <cstdint>
#include <stdexcept>

namespace headwise::metrics {

std::u32string code_points(std::string_view utf8) {
  std::u32string text;
  text.reserve(utf8.size());
  const auto size = static_cast<int64_t>(utf8.size());
  for (int64_t i = 0; i < size;) {
    UChar32 c = 0;
    U8_NEXT_OR_FFFD(utf8.data(), i, size, c);
    text.push_back(static_cast<char32_t>(c));
  }
  return text;
}

std::u32string lower_case(const std::u32string& text) {
  icu::UnicodeString units = icu::UnicodeString::fromUTF32(
      reinterpret_cast<const UChar32*>(text.data()), static_cast<int32_t>(text.size()));
  units.toLower(icu::Locale::getRoot());
  std::u32string lower(units.countChar32(), U'\0');
  UErrorCode status = U_ZERO_ERROR;
  units.toUTF32(reinterpret_cast<UChar32*>(lower.data()), static_cast<int32_t>(lower.size()),
                status);
  // A full buffer without a terminator is a warning, not a failure.
  if (U_FAILURE(status)) {
    throw std::runtime_error(std::string("lower case failed: ") + u_errorName(status));
  }
  return lower;
}

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x1f);
  return c == 0x85 || c == 0xa0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200a) || c == 0x2028 ||
         c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

std::vector<std::u32string_view> split(std::u32string_view text) {
  std::vector<std::u32string_view> parts;
  size_t i = 0;
  while (true) {
    while (i < text.size() && is_space(text[i])) ++i;
    if (i == text.size()) return parts;
    const size_t begin = i;
    while (i < text.size() && !is_space(text[i])) ++i;
    parts.push_back(text.substr(begin, i - begin));
  }
}

}  // namespace headwise::metrics
