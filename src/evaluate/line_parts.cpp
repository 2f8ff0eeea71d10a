#include "src/evaluate/line_parts.h"

#include <algorithm>
#include <string_view>

namespace headwise::evaluate {
namespace {

constexpr std::string_view kWordBegin = "\xE2\x96\x81";  // U+2581, SentencePiece's word mark

bool begins_word(const std::string& piece) { return piece.starts_with(kWordBegin); }

bool ends_sentence(const std::string& piece) {
  static constexpr std::string_view kEnds[] = {".", "!", "?", ";", "\xE3\x80\x82"};  // last: U+3002
  return std::any_of(std::begin(kEnds), std::end(kEnds),
                     [&](std::string_view end) { return piece.ends_with(end); });
}

/// Where the part that starts at `begin` ends: within (begin, begin + limit].
size_t cut(const data::Ids& ids, const data::Subword& subword, size_t begin, size_t limit) {
  const size_t end = begin + limit;
  size_t word = 0;
  for (size_t i = end; i > begin; --i) {
    const bool next_is_word = begins_word(subword.piece(ids[i]));
    if (next_is_word && ends_sentence(subword.piece(ids[i - 1]))) return i;
    if (next_is_word && word == 0) word = i;
  }
  return word > 0 ? word : end;
}

}  // namespace

std::vector<data::Ids> parts_of(const std::string& line, const data::Subword& subword,
                                int64_t limit) {
  const data::Ids ids = subword.encode(line);
  std::vector<data::Ids> parts;
  size_t begin = 0;
  while (ids.size() - begin > static_cast<size_t>(limit)) {
    const size_t end = cut(ids, subword, begin, static_cast<size_t>(limit));
    parts.emplace_back(ids.begin() + std::ptrdiff_t(begin), ids.begin() + std::ptrdiff_t(end));
    begin = end;
  }
  parts.emplace_back(ids.begin() + std::ptrdiff_t(begin), ids.end());
  return parts;
}

}  // namespace headwise::evaluate
