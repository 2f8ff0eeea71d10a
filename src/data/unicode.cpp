#include "src/data/unicode.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

namespace headwise::data {
namespace {

bool is_invisible(UChar32 character) {
  constexpr UChar32 kReplacement = 0xFFFD, kSentencePieceSpace = 0x2581;
  return u_isUWhiteSpace(character) || u_charType(character) == U_CONTROL_CHAR ||
         u_hasBinaryProperty(character, UCHAR_DEFAULT_IGNORABLE_CODE_POINT) ||
         character == kReplacement || character == kSentencePieceSpace;
}

}  // namespace

int32_t next_character(std::string_view text, int64_t& offset) {
  const auto size = static_cast<int64_t>(text.size());
  UChar32 character = 0;
  U8_NEXT(text, offset, size, character);
  return character;
}

int64_t count_characters(std::string_view text) {
  int64_t count = 0;
  for (int64_t offset = 0; offset < static_cast<int64_t>(text.size()); ++count) {
    next_character(text, offset);
  }
  return count;
}

bool is_blank(std::string_view text) {
  for (int64_t offset = 0; offset < static_cast<int64_t>(text.size());) {
    const UChar32 character = next_character(text, offset);
    if (character < 0 || !is_invisible(character)) return false;
  }
  return true;
}

}  // namespace headwise::data
