#include "src/data/corpus.h"

#include <algorithm>

#include "tests/cpp/data/text_fixtures.h"

namespace headwise::data {
namespace {

using Lines = std::vector<std::string>;

const Lines kText = {"aa bb aa bb cc", "bb cc aa", "cc bb aa cc"};

config::SubwordConfig small_settings() {
  config::SubwordConfig settings;
  settings.vocabulary = 9;
  return settings;
}

Vocabularies small_vocabularies() {
  const Subword model = Subword::train({&kText}, small_settings());
  return {model, model, true};
}

TEST(LoadParallel, DropsPairsWithAnEmptySideTogetherAndCountsThem) {
  const TemporaryFolder folder;
  const auto source = folder.write("s", "one\n\nthree\n \nfive\n\u200B\nseven\n");
  const auto target = folder.write("t", "eins\r\nzwei\r\n\r\n\r\nfünf\r\nsechs\r\nsieben\r\n");
  const ParallelText text = load_parallel(source, target);
  EXPECT_EQ(text.source, (Lines{"one", "five", "seven"}));
  EXPECT_EQ(text.target, (Lines{"eins", "fünf", "sieben"}));
  EXPECT_EQ(text.lines, (std::vector<int64_t>{1, 5, 7}));
  EXPECT_EQ(text.dropped_empty, 4);
}

TEST(LoadParallel, SeparatorsInsideALineStayAndCountNothing) {
  const TemporaryFolder folder;
  const std::string odd =
      "a\rb\u2028c\u0085"
      "d\x0b"
      "e\x0c"
      "f";
  const ParallelText text =
      load_parallel(folder.write("s", odd + "\nx\n"), folder.write("t", gzip("1\n" + odd)));
  EXPECT_EQ(text.source, (Lines{odd, "x"}));
  EXPECT_EQ(text.target, (Lines{"1", odd}));
}

TEST(LoadParallel, RefusesWhatCheckCallsFatalAndNamesTheCommand) {
  const TemporaryFolder folder;
  const auto three = folder.write("three", "a\nb\nc\n"), two = folder.write("two", "a\nb\n");
  const auto nul = folder.write("nul", std::string("a\nb\0\nc\n", 7));
  const auto invalid = folder.write("invalid", "a\n\xC3(\nc\n");
  const auto empty = folder.write("empty", ""), blank = folder.write("blank", "\n\n\n");
  const auto message = [&](const auto& source, const auto& target) {
    return user_error([&] { load_parallel(source, target); });
  };
  const std::string unequal = message(three, two);
  EXPECT_TRUE(contains(unequal, three.string() + " has 3 lines but " + two.string() + " has 2"));
  EXPECT_TRUE(contains(unequal, "headwise check " + three.string() + " " + two.string()));
  EXPECT_TRUE(contains(message(nul, three), "NUL byte"));
  EXPECT_TRUE(contains(message(three, invalid), "not valid UTF-8"));
  EXPECT_TRUE(contains(message(three, empty), "is empty"));
  EXPECT_TRUE(contains(message(three, blank), "can be used"));
  EXPECT_TRUE(contains(message(folder.path() / "none", three), "no such file"));
}

TEST(LoadParallel, IdentityIsThatOfTheBytesAndChangesWithThem) {
  const TemporaryFolder folder;
  const auto source = folder.write("s", "a\n\nb\n"), target = folder.write("t", "c\nx\nd\n");
  const CorpusIdentity identity = load_parallel(source, target).identity;
  EXPECT_EQ(identity.lines, 3);
  EXPECT_EQ(identity.bytes, 11);
  // printf 'a\n\nb\nc\nx\nd\n' | sha256sum
  EXPECT_EQ(identity.sha256, "e2b90e1eca895ba978f551a9de7ec33f4d5f4c120dc607e4ad1c714c9f5f48f5");
  EXPECT_EQ(load_parallel(folder.write("s.gz", gzip("a\n\nb\n")), target).identity, identity);
  EXPECT_NE(load_parallel(target, source).identity, identity);
  EXPECT_NE(load_parallel(folder.write("s2", "a\n\nB\n"), target).identity, identity);
  EXPECT_EQ(make_parallel({"a", "", "b"}, {"c", "x", "d"}, "memory").identity, identity);
}

TEST(MakeParallel, ChecksCounts) {
  EXPECT_EQ(make_parallel({"a", "b"}, {"c", ""}, "x").size(), 1);
  EXPECT_TRUE(contains(user_error([] { make_parallel({"a"}, {}, "x"); }), "1 source and 0 target"));
  EXPECT_THROW(make_parallel({}, {}, "x"), UserError);
}

TEST(Encode, KeepsIdsLinesAndCountsByReason) {
  const Vocabularies vocabularies = small_vocabularies();
  const std::string longer = "aa bb cc aa bb cc aa bb cc aa bb cc";
  const ParallelText text = make_parallel({"aa", "", "bb cc", longer, "aa bb cc aa bb"},
                                          {"bb", "x", "aa", "aa", "aa"}, "x");
  const auto pieces = [&](const std::string& line) {
    return static_cast<int64_t>(vocabularies.source.encode(line).size());
  };
  LengthLimits limits{pieces(longer), static_cast<double>(pieces("bb cc"))};
  const Encoded encoded = encode(text, vocabularies, limits);
  EXPECT_EQ(encoded.corpus.lines, (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(encoded.corpus.source[1], vocabularies.source.encode("bb cc"));
  EXPECT_EQ(encoded.corpus.target[1], vocabularies.target.encode("aa"));
  EXPECT_EQ(encoded.dropped.empty, 1);
  EXPECT_EQ(encoded.dropped.too_long, 1);
  EXPECT_EQ(encoded.dropped.length_ratio, 1);
  EXPECT_EQ(encoded.corpus.size() + encoded.dropped.total(), text.identity.lines);
}

TEST(Encode, NothingLeftIsAnErrorWithTheReasons) {
  const ParallelText text = make_parallel({"aa bb", ""}, {"cc", "cc"}, "x");
  const auto message = user_error([&] { encode(text, small_vocabularies(), {1, 0}); });
  EXPECT_TRUE(contains(message, "1 have an empty side")) << message;
  EXPECT_TRUE(contains(message, "1 are longer than data.max_length = 1")) << message;
}

TEST(MakeVocabularies, TrainsOrReadsAsConfigured) {
  const TemporaryFolder folder;
  const ParallelText text = make_parallel(kText, {"xx yy", "yy zz xx", "zz"}, "x");
  auto settings = small_settings();
  settings.vocabulary = 13;
  const Vocabularies joint = make_vocabularies(settings, text);
  EXPECT_TRUE(joint.joint);
  EXPECT_EQ(joint.source.bytes(), joint.target.bytes());
  const Ids both = joint.source.encode("aa zz");
  EXPECT_EQ(std::count(both.begin(), both.end(), joint.source.unk()), 0);

  settings.joint = false;
  settings.vocabulary = 9;
  const Vocabularies separate = make_vocabularies(settings, text);
  EXPECT_FALSE(separate.joint);
  EXPECT_NE(separate.source.bytes(), separate.target.bytes());
  const Ids foreign = separate.source.encode("zz");
  EXPECT_EQ(std::count(foreign.begin(), foreign.end(), separate.source.unk()), 1);

  settings.source_model = folder.write("model", joint.source.bytes());
  settings.trust_model = true;
  EXPECT_EQ(make_vocabularies(settings, text).source.bytes(), joint.source.bytes());
}

TEST(ResolvePath, RootGoesBeforeRelativePathsOnly) {
  config::DataConfig data;
  EXPECT_EQ(resolve_path(data, "a.txt"), "a.txt");
  data.root = "/some/where";
  EXPECT_EQ(resolve_path(data, "a.txt"), "/some/where/a.txt");
  EXPECT_EQ(resolve_path(data, "/b.txt"), "/b.txt");
}

}  // namespace
}  // namespace headwise::data
