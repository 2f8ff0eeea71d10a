#include "src/metrics/text.h"

#include <gtest/gtest.h>

#include "src/metrics/tokenizer_13a.h"

namespace headwise::metrics {
namespace {

std::vector<std::u32string> tokens(const std::u32string& line) {
  const std::u32string spaced = tokenize_13a(line);
  std::vector<std::u32string> result;
  for (const std::u32string_view token : split(spaced)) result.emplace_back(token);
  return result;
}

using Tokens = std::vector<std::u32string>;

TEST(Tokenizer13a, SeparatesSymbolsButNotApostrophes) {
  EXPECT_EQ(tokens(U"Don't (really)!"), (Tokens{U"Don't", U"(", U"really", U")", U"!"}));
  EXPECT_EQ(tokens(U"a/b$c_d~"), (Tokens{U"a", U"/", U"b", U"$", U"c", U"_", U"d", U"~"}));
  EXPECT_EQ(tokens(U"well-known"), (Tokens{U"well-known"}));
}

TEST(Tokenizer13a, LeavesPointsBetweenDigits) {
  EXPECT_EQ(tokens(U"1,000.5"), (Tokens{U"1,000.5"}));
  EXPECT_EQ(tokens(U"It is 5."), (Tokens{U"It", U"is", U"5", U"."}));
  EXPECT_EQ(tokens(U".5 a,b"), (Tokens{U".", U"5", U"a", U",", U"b"}));
  EXPECT_EQ(tokens(U"wait..."), (Tokens{U"wait", U".", U".", U"."}));
}

TEST(Tokenizer13a, SeparatesADashAfterADigit) {
  EXPECT_EQ(tokens(U"3-4 a-5"), (Tokens{U"3", U"-", U"4", U"a-5"}));
}

TEST(Tokenizer13a, ResolvesEntitiesOnceAndInOrder) {
  EXPECT_EQ(tokens(U"&quot;x&quot;"), (Tokens{U"\"", U"x", U"\""}));
  EXPECT_EQ(tokens(U"&amp;lt;"), (Tokens{U"<"}));  // &amp; first, then &lt;
  EXPECT_EQ(tokens(U"&apos;"), (Tokens{U"&", U"apos", U";"}));
}

TEST(Tokenizer13a, JoinsBrokenLinesAndSkips) {
  EXPECT_EQ(tokens(U"won-\nder<skipped>ful\nday"), (Tokens{U"wonderful", U"day"}));
}

TEST(Text, SplitsAtUnicodeWhitespace) {
  const std::u32string text =
      U"\u3000a\u00a0b\x1c"
      U"c\u2028d\u200be ";
  const auto parts = split(text);
  EXPECT_EQ((Tokens{parts.begin(), parts.end()}), (Tokens{U"a", U"b", U"c", U"d\u200be"}));
  EXPECT_TRUE(split(U" \n").empty());
}

TEST(Text, MalformedBytesBecomeReplacementCharacters) {
  EXPECT_EQ(code_points("a\xff\xc3"), U"a\ufffd\ufffd");
  EXPECT_EQ(code_points("\xe2\x82x"), U"\ufffdx");                // one cut-off character
  EXPECT_EQ(code_points("\xed\xa0\x80"), U"\ufffd\ufffd\ufffd");  // a surrogate
  EXPECT_EQ(code_points("\xf0\x9f\x98\x80"), U"\U0001F600");
  EXPECT_EQ(code_points({"\0a", 2}), (std::u32string{U'\0', U'a'}));
}

TEST(Text, LowerCaseKnowsTheSpecialCases) {
  EXPECT_EQ(lower_case(U"ÀẞI"), U"àßi");
  EXPECT_EQ(lower_case(U"ΟΔΥΣΣΕΥΣ Σ"), U"οδυσσευς σ");  // a final sigma
  EXPECT_EQ(lower_case(U"\u0130"), U"i\u0307");         // one letter becomes two
  EXPECT_EQ(lower_case(U"\U00010400"), U"\U00010428");  // beyond 16 bits
  EXPECT_EQ(lower_case(U""), U"");
}

}  // namespace
}  // namespace headwise::metrics
