#include "src/config/format.h"

#include <array>
#include <charconv>
#include <cmath>

namespace headwise::config {
namespace {

std::string escaped(unsigned char c) {
  static constexpr char kDigits[] = "0123456789ABCDEF";
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\t':
      return "\\t";
    case '\r':
      return "\\r";
    default:
      return std::string("\\u00") + kDigits[c >> 4] + kDigits[c & 15];
  }
}

std::string format_real(double number) {
  if (!std::isfinite(number)) return std::isnan(number) ? "nan" : number > 0 ? "inf" : "-inf";
  const std::string text = number_text(number);
  // TOML tells a float from an integer by its point or exponent.
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

std::string format_list(const std::vector<int64_t>& numbers) {
  if (numbers.size() == 1) return std::to_string(numbers[0]);
  std::string text = "[";
  for (size_t i = 0; i < numbers.size(); ++i) {
    text += (i > 0 ? ", " : "") + std::to_string(numbers[i]);
  }
  return text + "]";
}

}  // namespace

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7F || c == '"' || c == '\\') {
      out += escaped(byte);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string number_text(double number) {
  std::array<char, 32> digits;
  char* const begin = digits.data();
  // The shortest form of a million would be 1e+06.
  const bool is_small_whole = std::trunc(number) == number && std::abs(number) < 1e15;
  const auto form = is_small_whole ? std::chars_format::fixed : std::chars_format::general;
  const auto end = std::to_chars(begin, begin + digits.size(), number, form).ptr;
  return {begin, end};
}

std::string format(const Value& value) {
  struct Formatter {
    std::string operator()(std::monostate) const { return ""; }
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(int64_t number) const { return std::to_string(number); }
    std::string operator()(double number) const { return format_real(number); }
    std::string operator()(const std::string& text) const { return quoted(text); }
    std::string operator()(const std::vector<int64_t>& list) const { return format_list(list); }
  };
  return std::visit(Formatter{}, value);
}

}  // namespace headwise::config
