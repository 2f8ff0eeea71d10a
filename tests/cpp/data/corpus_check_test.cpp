#include "src/data/corpus_check.h"

#include <random>

#include "tests/cpp/data/text_fixtures.h"

namespace headwise::data {
namespace {

using Lines = std::vector<std::string>;

TextFile text_of_bytes(std::string_view bytes) {
  const TemporaryFolder folder;
  return read_lines(folder.write("text", bytes));
}

FileReport file_report(std::string_view bytes, const CheckOptions& options = {}) {
  return check_file("file", text_of_bytes(bytes), options, nullptr);
}

CorpusReport corpus_report(std::string_view source, std::string_view target,
                           const CheckOptions& options = {}) {
  static const std::string a = "a.txt", b = "b.txt";
  const TextFile source_text = text_of_bytes(source), target_text = text_of_bytes(target);
  return check_corpus({a, source_text}, {b, target_text}, options);
}

std::string fatal_text(std::string_view source, std::string_view target) {
  std::string all;
  for (const std::string& message : fatal(corpus_report(source, target))) all += message + "\n";
  return all;
}

std::string numbered(int64_t count) {
  std::mt19937_64 random(1);
  std::string text;
  for (int64_t i = 1; i <= count; ++i) {
    text += text_of("line ", i, std::string(random() % 60, 'x'), "\n");
  }
  return text;
}

void expect_places(const Finding& finding, int64_t count, const std::vector<Place>& first) {
  EXPECT_EQ(finding.count, count);
  ASSERT_EQ(finding.first.size(), first.size());
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(finding.first[i].line, first[i].line);
    EXPECT_EQ(finding.first[i].byte, first[i].byte);
  }
}

TEST(CheckFile, CountsLinesBytesCharacters) {
  const FileReport report = file_report("aä\r\n한국\n\nz");
  EXPECT_EQ(report.lines, 4);
  EXPECT_EQ(report.bytes, 3 + 2 + 6 + 1 + 1 + 1);
  EXPECT_EQ(report.characters, 5);
  EXPECT_EQ(report.longest, 2);
  EXPECT_EQ(report.crlf_line_ends, 1);
  EXPECT_FALSE(report.ends_with_newline);
  EXPECT_FALSE(report.byte_order_mark);
}

TEST(CheckFile, FindsOddBytesWithLineAndByte) {
  const FileReport report = file_report(
      std::string("ok\nab\xFFz\0y\na\rb\x0b\x0c\xC2\x85\xE2\x80\xA8\xE2\x80\xA9\n\xE2\x80\n", 27));
  expect_places(report.invalid_utf8, 2, {{2, 3}, {4, 1}});
  expect_places(report.nul, 1, {{2, 5}});
  expect_places(report.carriage_return, 1, {{3, 2}});
  expect_places(report.vertical_tab, 1, {{3, 4}});
  expect_places(report.form_feed, 1, {{3, 5}});
  expect_places(report.next_line, 1, {{3, 6}});
  expect_places(report.line_separator, 1, {{3, 8}});
  expect_places(report.paragraph_separator, 1, {{3, 11}});
}

TEST(CheckFile, BytesAfterAByteOrderMarkCountInTheFile) {
  const FileReport report = file_report(
      "\xEF\xBB\xBF"
      "a\xFF\nb\xFF\n");
  EXPECT_TRUE(report.byte_order_mark);
  expect_places(report.invalid_utf8, 2, {{1, 5}, {2, 2}});
}

TEST(CheckFile, BlankLongAndRepeatedLines) {
  CheckOptions options;
  options.max_characters = 3;
  const FileReport report = file_report("abc\n\n \n\u200B\nabcd\nabc\nab\nabc\n\n", options);
  expect_places(report.blank, 4, {{2, 0}, {3, 0}, {4, 0}, {9, 0}});
  expect_places(report.too_many_characters, 1, {{5, 0}});
  expect_places(report.duplicate, 2, {{6, 0}, {8, 0}});  // blank lines are no repetition
}

TEST(CheckFile, OnlyTheFirstPlacesAreKept) {
  const FileReport report = file_report("a\n\n\n\n\n\n\n\n");
  EXPECT_EQ(report.blank.count, 7);
  EXPECT_EQ(report.blank.first.size(), Finding::kPlaces);
}

TEST(CheckFile, PiecesNeedAModel) {
  const Lines lines = {"aa bb aa bb cc", "bb cc aa", "cc bb aa cc"};
  config::SubwordConfig settings;
  settings.vocabulary = 9;
  const Subword model = Subword::train({&lines}, settings);
  CheckOptions options;
  const TextFile text = text_of_bytes("aa\naa z\n\naa bb cc aa bb cc aa bb cc aa bb cc\n");
  const auto longest = static_cast<int64_t>(model.encode(text.lines[3]).size());
  options.limits.max_length = longest + 1;  // just fits with the end token
  EXPECT_EQ(check_file("f", text, options, &model).too_many_pieces.count, 0);
  options.limits.max_length = longest;
  const FileReport report = check_file("f", text, options, &model);
  expect_places(report.unknown_pieces, 1, {{2, 0}});
  expect_places(report.too_many_pieces, 1, {{4, 0}});
  int64_t pieces = 0;
  for (const std::string& line : text.lines)
    pieces += static_cast<int64_t>(model.encode(line).size());
  EXPECT_EQ(report.pieces, pieces);
  EXPECT_EQ(check_file("f", text, options, nullptr).unknown_pieces.count, 0);
}

TEST(CheckFile, EveryFindingIsListedOnce) {
  const FileReport report;
  const auto all = findings(report);
  for (const NamedFinding& a : all) {
    for (const NamedFinding& b : all) {
      EXPECT_EQ(std::string(a.key) == b.key, a.finding == b.finding);
    }
  }
  // No Finding member is missing from the list: they are the bytes from `blank` to the end.
  const auto* begin = reinterpret_cast<const char*>(&report.blank);
  const auto* end = reinterpret_cast<const char*>(&report) + sizeof(report);
  EXPECT_EQ(all.size(), static_cast<size_t>(end - begin) / sizeof(Finding));
}

TEST(CheckPair, CountsWhatTrainingWouldDrop) {
  const CorpusReport report = corpus_report("a\n\nc\n\nsame\na\n", "b\nx\n \u200B\n\nsame\nb\n");
  EXPECT_EQ(report.pair.dropped.empty, 3);
  EXPECT_EQ(report.pair.usable, 3);
  expect_places(report.pair.one_side_blank, 2, {{2, 0}, {3, 0}});
  expect_places(report.pair.duplicate, 1, {{6, 0}});
  expect_places(report.pair.copied, 1, {{5, 0}});
  EXPECT_TRUE(fatal(report).empty());
}

TEST(CheckPair, LengthLimitsCountPieces) {
  const Lines lines = {"aa bb aa bb cc", "bb cc aa", "cc bb aa cc"};
  config::SubwordConfig settings;
  settings.vocabulary = 9;
  const Subword model = Subword::train({&lines}, settings);
  const Vocabularies vocabularies{model, model, true};
  const auto pieces = [&](const std::string& line) { return model.encode(line).size(); };
  const std::string shorter = "aa", longer = "aa bb cc aa";
  CheckOptions options;
  options.subword = &vocabularies;
  options.limits.max_length = static_cast<int64_t>(pieces(longer)) + 1;  // just fits with the end
  const auto dropped = [&] {
    return corpus_report(shorter + "\n" + longer + "\n", longer + "\n" + longer + "\n", options)
        .pair.dropped;
  };
  EXPECT_EQ(dropped().total(), 0);
  options.limits.max_length_ratio =
      static_cast<double>(pieces(longer)) / static_cast<double>(pieces(shorter));
  EXPECT_EQ(dropped().total(), 0);  // the limit itself is allowed
  options.limits.max_length_ratio -= 0.01;
  EXPECT_EQ(dropped().length_ratio, 1);
  options.limits.max_length -= 1;
  EXPECT_EQ(dropped().too_long, 2);
}

TEST(CheckPair, ExtremeRatiosAreNamed) {
  std::string source, target;
  for (int i = 0; i < 50; ++i) {
    source += "a sentence of usual length " + std::to_string(i) + "\n";
    target += i == 30 ? "oh\n" : "ein Satz von gewöhnlicher Länge " + std::to_string(i) + "\n";
  }
  const CorpusReport report = corpus_report(source, target);
  expect_places(report.pair.extreme_ratio, 1, {{31, 0}});
  EXPECT_NEAR(report.pair.ratios.median, 1.17, 0.1);
  EXPECT_LT(report.pair.ratios.least, 0.2);
}

TEST(Fatal, CleanTextPasses) {
  EXPECT_EQ(fatal_text(numbered(100), numbered(100)), "");
  const std::string text = numbered(100);
  EXPECT_EQ(fatal_text(text, text.substr(0, text.size() - 1)), "");  // no newline at the end
  std::string crlf;
  for (const char c : text) crlf += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(fatal_text(text, crlf), "");  // CRLF on one side only
  EXPECT_EQ(fatal_text("a\rb\nc\u2028d\ne\u0085f\x0b\x0cg\n\u200B\n", "1\n2\n3\n4\n"), "");
  EXPECT_EQ(fatal_text("\xEF\xBB\xBF"
                       "a\n",
                       "b\n"),
            "");
}

TEST(Fatal, UnequalCountsNameBothAndTheFirstSuspiciousLine) {
  const std::string text = numbered(100);
  std::string without57;
  for (const std::string& line : text_of_bytes(text).lines) {
    if (!line.starts_with("line 57x")) without57 += line + "\n";
  }
  const std::string message = fatal_text(text, without57);
  EXPECT_TRUE(contains(message, "a.txt has 100 lines but b.txt has 99")) << message;
  EXPECT_TRUE(contains(message, "1 line too many begin at line 57 of a.txt")) << message;
  const std::string swapped = fatal_text(without57, text);
  EXPECT_TRUE(contains(swapped, "a.txt has 99 lines but b.txt has 100")) << swapped;
  EXPECT_TRUE(contains(swapped, "begin at line 57 of b.txt")) << swapped;
}

TEST(Fatal, ATruncatedSideAndBlankLinesOnOneSide) {
  const std::string text = numbered(100);
  const std::string cut = fatal_text(text, numbered(90));
  EXPECT_TRUE(contains(cut, "b.txt ends 10 lines early")) << cut;
  std::string spaced;  // twice as long, with blank lines
  for (const std::string& line : text_of_bytes(text).lines) spaced += line + "\n\n";
  const std::string message = fatal_text(text, spaced);
  EXPECT_TRUE(contains(message, "a.txt has 100 lines but b.txt has 200")) << message;
  EXPECT_TRUE(contains(message, "line 2 is the first that is empty on one side only")) << message;
}

TEST(Fatal, InvalidBytesNulAndEmptyFiles) {
  EXPECT_EQ(fatal_text("a\nb\n", "c\nd\xFF\xFF\n"),
            "b.txt is not valid UTF-8 in 2 place(s), the first in line 2 at byte 2\n");
  EXPECT_EQ(fatal_text(std::string("a\nb\0\n", 5), "c\nd\n"),
            "a.txt has 1 NUL byte(s), in line 2 at byte 2\n");
  EXPECT_EQ(fatal_text("", ""), "a.txt is empty\nb.txt is empty\n");
  EXPECT_TRUE(contains(fatal_text("", "a\n"), "a.txt is empty"));
  EXPECT_TRUE(contains(fatal_text("", "a\n"), "a.txt has 0 lines but b.txt has 1"));
}

TEST(Fatal, NoUsablePair) {
  const std::string message = fatal_text("a\n\nb\n", "\nc\n\u200B\n");
  EXPECT_TRUE(contains(message, "no pair of a.txt and b.txt can be used: of 3, 3 have an empty"))
      << message;
}

}  // namespace
}  // namespace headwise::data
