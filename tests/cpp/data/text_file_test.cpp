#include "src/data/text_file.h"

#include <random>

#include "tests/cpp/data/text_fixtures.h"

namespace headwise::data {
namespace {

using Lines = std::vector<std::string>;

TextFile read(std::string_view bytes) {
  const TemporaryFolder folder;
  return read_lines(folder.write("text", bytes));
}

TEST(TextFile, OnlyLineFeedEndsALine) {
  const std::string inside =
      "a\rb\x0b"
      "c\x0c"
      "d\xC2\x85"
      "e\xE2\x80\xA8"
      "f\xE2\x80\xA9g";
  const TextFile text = read(inside + "\n" + inside + "\n");
  EXPECT_EQ(text.lines, (Lines{inside, inside}));
  EXPECT_EQ(text.carriage_returns, 0);
}

TEST(TextFile, CarriageReturnBeforeLineFeedIsStrippedOnceAndCounted) {
  const TextFile text = read("a\r\nb\nc\r\r\n\r\nlast\r");
  EXPECT_EQ(text.lines, (Lines{"a", "b", "c\r", "", "last\r"}));
  EXPECT_EQ(text.carriage_returns, 3);
}

TEST(TextFile, LastLineNeedsNoLineFeed) {
  EXPECT_EQ(read("a\nb").lines, (Lines{"a", "b"}));
  EXPECT_FALSE(read("a\nb").ends_with_newline);
  EXPECT_EQ(read("a\nb\n").lines, (Lines{"a", "b"}));
  EXPECT_TRUE(read("a\nb\n").ends_with_newline);
}

TEST(TextFile, EmptyFileAndEmptyLines) {
  EXPECT_EQ(read("").lines, Lines{});
  EXPECT_EQ(read("\n").lines, Lines{""});
  EXPECT_EQ(read("\n\na\n\n").lines, (Lines{"", "", "a", ""}));
}

TEST(TextFile, NulAndInvalidBytesAreKept) {
  const std::string bytes("a\0b\xff\n\xc3", 6);
  EXPECT_EQ(read(bytes).lines, (Lines{bytes.substr(0, 4), "\xc3"}));
}

TEST(TextFile, ByteOrderMarkIsRemovedAtTheStartOnly) {
  const TextFile text = read(
      "\xEF\xBB\xBF"
      "a\n\xEF\xBB\xBF"
      "b\n");
  EXPECT_EQ(text.lines, (Lines{"a",
                               "\xEF\xBB\xBF"
                               "b"}));
  EXPECT_TRUE(text.byte_order_mark);
  EXPECT_FALSE(read("a\n").byte_order_mark);
  EXPECT_EQ(read("\xEF\xBB\xBF").lines, Lines{});
  EXPECT_TRUE(read("\xEF\xBB\xBF").byte_order_mark);
}

TEST(TextFile, GzipIsKnownByItsBytesAndMembersAreJoined) {
  const TextFile text = read(gzip("a\nb") + gzip("c\n") + gzip("") + gzip("d\r\n"));
  EXPECT_EQ(text.lines, (Lines{"a", "bc", "d"}));
  EXPECT_TRUE(text.gzip);
  EXPECT_EQ(text.bytes, 8);
  EXPECT_EQ(read(gzip("")).lines, Lines{});
  EXPECT_EQ(read(gzip("x\n") + std::string(600, '\0')).lines, Lines{"x"});  // padding of tapes
}

// Long and incompressible enough to cross every buffer border; the reference splits naively.
TEST(TextFile, BigFilesPlainAndGzipAgreeWithANaiveSplit) {
  std::mt19937_64 random(7);
  std::string bytes;
  while (bytes.size() < 1'500'000) {
    const size_t length = random() % 50 == 0 ? random() % 200'000 : random() % 80;
    for (size_t i = 0; i < length; ++i) bytes += static_cast<char>('!' + random() % 90);
    bytes += random() % 3 == 0 ? "\r\n" : "\n";
  }
  Lines expected;
  std::string line;
  for (const char c : bytes) {
    if (c != '\n') {
      line += c;
      continue;
    }
    if (!line.empty() && line.back() == '\r') line.pop_back();
    expected.push_back(line);
    line.clear();
  }
  EXPECT_TRUE(read(bytes).lines == expected);
  const size_t half = bytes.size() / 2;
  const TextFile packed = read(gzip(bytes.substr(0, half)) + gzip(bytes.substr(half)));
  EXPECT_TRUE(packed.lines == expected);
  EXPECT_EQ(packed.bytes, static_cast<int64_t>(bytes.size()));
}

TEST(TextFile, DamagedGzipIsRefusedWhereverItIsCutOrFlipped) {
  const TemporaryFolder folder;
  const std::string good = gzip("line one\nline two\nline three\n");
  for (size_t size = 2; size < good.size(); ++size) {
    const auto path = folder.write("cut.gz", good.substr(0, size));
    EXPECT_TRUE(contains(user_error([&] { read_lines(path); }), path.string())) << size;
  }
  for (size_t at = 10; at < good.size(); ++at) {  // behind the header, where flags may be anything
    std::string flipped = good;
    flipped[at] = static_cast<char>(flipped[at] ^ 0x10);
    const auto path = folder.write("flipped.gz", flipped);
    EXPECT_THROW(read_lines(path), UserError) << at;
  }
  const auto rest = folder.write("rest.gz", good + "garbage");
  EXPECT_TRUE(contains(user_error([&] { read_lines(rest); }), "damaged gzip"));
}

TEST(TextFile, MissingFileFolderAndUnreadableFileAreNamed) {
  const TemporaryFolder folder;
  const auto missing = folder.path() / "missing.txt";
  EXPECT_EQ(user_error([&] { read_lines(missing); }), missing.string() + ": no such file");
  EXPECT_TRUE(contains(user_error([&] { read_lines(folder.path()); }), "is a folder"));
  const auto closed = folder.write("closed", "a\n");
  std::filesystem::permissions(closed, std::filesystem::perms::none);
  if (geteuid() != 0) {  // root reads everything
    EXPECT_TRUE(contains(user_error([&] { read_lines(closed); }), "cannot be opened"));
  }
  EXPECT_TRUE(contains(user_error([&] { read_lines("/proc/self/mem"); }), "cannot be read"));
}

TEST(Sha256, AgreesWithThePublishedExamples) {
  Sha256 digest;
  EXPECT_EQ(digest.hex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  digest.update("a");
  digest.update("bc");
  EXPECT_EQ(digest.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  digest.update("dbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq");
  EXPECT_NE(digest.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(TextFile, DigestIsThatOfTheDecompressedBytes) {
  const TemporaryFolder folder;
  Sha256 plain, packed;
  read_lines(folder.write("a",
                          "\xEF\xBB\xBF"
                          "x\r\ny"),
             &plain);
  read_lines(folder.write("b", gzip("\xEF\xBB\xBF"
                                    "x\r\ny")),
             &packed);
  Sha256 expected;
  expected.update(
      "\xEF\xBB\xBF"
      "x\r\ny");
  EXPECT_EQ(plain.hex(), expected.hex());
  EXPECT_EQ(packed.hex(), expected.hex());
}

}  // namespace
}  // namespace headwise::data
