#include "src/data/unicode.h"

#include <gtest/gtest.h>

#include <string>

namespace headwise::data {
namespace {

/// UTF-8 by the bit patterns of RFC 3629; also makes the forms it forbids.
std::string utf8(uint32_t c) {
  const auto tail = [](uint32_t bits) { return static_cast<char>(0x80 | (bits & 0x3F)); };
  if (c < 0x80) return {static_cast<char>(c)};
  if (c < 0x800) return {static_cast<char>(0xC0 | c >> 6), tail(c)};
  if (c < 0x10000) return {static_cast<char>(0xE0 | c >> 12), tail(c >> 6), tail(c)};
  return {static_cast<char>(0xF0 | c >> 18), tail(c >> 12), tail(c >> 6), tail(c)};
}

TEST(Unicode, EveryCodePointIsReadAndSurrogatesAreInvalid) {
  for (uint32_t c = 0; c < 0x110800; ++c) {
    const std::string text = utf8(c);
    int64_t offset = 0;
    const int32_t read = next_character(text, offset);
    const bool valid = c < 0xD800 || (c > 0xDFFF && c < 0x110000);
    ASSERT_EQ(read >= 0, valid) << c;
    if (!valid) continue;
    ASSERT_EQ(read, static_cast<int32_t>(c));
    ASSERT_EQ(offset, static_cast<int64_t>(text.size()));
  }
}

TEST(Unicode, OverlongTruncatedAndStrayBytesAreInvalid) {
  for (const std::string text :
       {"\xC0\x80", "\xC1\xBF", "\xE0\x9F\xBF", "\xF0\x8F\xBF\xBF", "\xC3", "\xE2\x80",
        "\xF0\x9F\x98", "\x80", "\xFE", "\xFF", "\xC3(", "\xF8\x88\x80\x80\x80"}) {
    int64_t offset = 0;
    EXPECT_LT(next_character(text, offset), 0) << testing::PrintToString(text);
    EXPECT_GT(offset, 0);
  }
}

TEST(Unicode, CharactersAreCountedNotBytes) {
  EXPECT_EQ(count_characters(""), 0);
  EXPECT_EQ(count_characters("aä한😀"), 4);
}

TEST(Unicode, BlankIsWhatShowsNothing) {
  for (const std::string text :
       {"", " ", "\t \r\v\f", "\u00A0\u3000", "\u200B", "\u200B\u200C\u200D\u2060\uFEFF", "\u2028",
        "\u0085", "\u00AD", "\x01\x1f", "\u2581", "\uFFFD"}) {
    EXPECT_TRUE(is_blank(text)) << testing::PrintToString(text);
  }
  for (const std::string text : {"a", " . ", "\u200B한", "0", "\xFF", "😀", "\u0301"}) {
    EXPECT_FALSE(is_blank(text)) << testing::PrintToString(text);
  }
}

}  // namespace
}  // namespace headwise::data
