#include "src/metrics/tokenizer_13a.h"

#include <string_view>

#include "src/metrics/text.h"

namespace headwise::metrics {

namespace {

void replace_all(std::u32string& text, std::u32string_view from, std::u32string_view to) {
  size_t found = text.find(from);
  if (found == std::u32string::npos) return;
  std::u32string result;
  size_t begin = 0;
  for (; found != std::u32string::npos; found = text.find(from, begin)) {
    result.append(text, begin, found - begin).append(to);
    begin = found + from.size();
  }
  result.append(text, begin);
  text = std::move(result);
}

bool is_digit(char32_t c) { return c >= '0' && c <= '9'; }
bool is_point(char32_t c) { return c == '.' || c == ','; }

// ASCII punctuation but ' - . , which need a look at their neighbours.
bool is_symbol(char32_t c) {
  return (c >= '{' && c <= '~') || (c >= '[' && c <= '`') || (c >= ' ' && c <= '&') ||
         (c >= '(' && c <= '+') || (c >= ':' && c <= '@') || c == '/';
}

std::u32string space_symbols(const std::u32string& text) {
  std::u32string result;
  result.reserve(2 * text.size());
  for (const char32_t c : text) {
    if (is_symbol(c)) {
      result.append({' ', c, ' '});
    } else {
      result.push_back(c);
    }
  }
  return result;
}

/// Where neighbours (a, b) satisfy `match`, writes first, a, middle, b, last. As in a regular
/// expression's substitution a character belongs to one match only, the leftmost.
template <typename Match>
std::u32string space_pairs(const std::u32string& text, Match match, std::u32string_view first,
                           std::u32string_view middle, std::u32string_view last) {
  std::u32string result;
  result.reserve(2 * text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (i + 1 < text.size() && match(text[i], text[i + 1])) {
      result.append(first).append(1, text[i]).append(middle).append(1, text[i + 1]).append(last);
      ++i;
    } else {
      result.push_back(text[i]);
    }
  }
  return result;
}

}  // namespace

std::u32string tokenize_13a(std::u32string line) {
  replace_all(line, U"<skipped>", U"");
  replace_all(line, U"-\n", U"");
  replace_all(line, U"\n", U" ");
  replace_all(line, U"&quot;", U"\"");
  replace_all(line, U"&amp;", U"&");
  replace_all(line, U"&lt;", U"<");
  replace_all(line, U"&gt;", U">");
  line = space_symbols(U" " + line + U" ");
  // A point or comma stays attached only between digits.
  line = space_pairs(
      line, [](char32_t a, char32_t b) { return !is_digit(a) && is_point(b); }, U"", U" ", U" ");
  line = space_pairs(
      line, [](char32_t a, char32_t b) { return is_point(a) && !is_digit(b); }, U" ", U" ", U"");
  // A dash after a digit stands alone.
  return space_pairs(
      line, [](char32_t a, char32_t b) { return is_digit(a) && b == '-'; }, U"", U" ", U" ");
}

}  // namespace headwise::metrics
