#include "src/data/subword.h"

#include <sentencepiece_processor.h>
#include <sentencepiece_trainer.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <thread>
#include <unordered_map>

#include "tests/cpp/data/text_fixtures.h"

namespace headwise::data {
namespace {

using Lines = std::vector<std::string>;
using Flags = std::unordered_map<std::string, std::string>;

/// Sentences of words from a small random lexicon.
Lines sentences(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  Lines words;
  for (int i = 0; i < 200; ++i) {
    std::string word;
    for (uint64_t j = 0; j < 2 + random() % 7; ++j) word += static_cast<char>('a' + random() % 26);
    words.push_back(word);
  }
  Lines lines;
  for (int64_t i = 0; i < count; ++i) {
    std::string line;
    for (uint64_t j = 0; j < 3 + random() % 8; ++j) {
      line += (line.empty() ? "" : " ") + words[random() % words.size()];
    }
    lines.push_back(line + " .");
  }
  return lines;
}

config::SubwordConfig settings(int64_t vocabulary, config::SubwordType type) {
  config::SubwordConfig options;
  options.vocabulary = vocabulary;
  options.type = type;
  return options;
}

/// A model trained with SentencePiece itself, as a user would with spm_train.
std::string user_model(Flags flags) {
  class Iterator : public sentencepiece::SentenceIterator {
   public:
    bool done() const override { return at_ == lines_.size(); }
    void Next() override { ++at_; }
    const std::string& value() const override { return lines_[at_]; }
    sentencepiece::util::Status status() const override { return {}; }

   private:
    Lines lines_ = sentences(300, 1);
    size_t at_ = 0;
  } lines;
  flags.insert({{"vocab_size", "120"}, {"minloglevel", "3"}, {"num_threads", "1"}});
  std::string model;
  const auto status = sentencepiece::SentencePieceTrainer::Train(flags, &lines, &model);
  if (!status.ok()) throw std::runtime_error(status.ToString());
  return model;
}

class SubwordTypes : public testing::TestWithParam<config::SubwordType> {};
INSTANTIATE_TEST_SUITE_P(Both, SubwordTypes,
                         testing::Values(config::SubwordType::kUnigram, config::SubwordType::kBpe));

TEST_P(SubwordTypes, TrainedModelHasItsSizeItsIdsAndReturnsTheText) {
  const Lines source = sentences(300, 1), target = sentences(300, 2);
  const Subword model = Subword::train({&source, &target}, settings(200, GetParam()));
  EXPECT_EQ(model.size(), 200);
  EXPECT_EQ(model.pad(), 0);
  EXPECT_EQ(model.unk(), 1);
  EXPECT_EQ(model.bos(), 2);
  EXPECT_EQ(model.eos(), 3);
  for (const Lines& lines : {source, target}) {
    for (const std::string& line : lines) {
      const Ids ids = model.encode(line);
      EXPECT_EQ(model.decode(ids), line);
      EXPECT_GT(*std::min_element(ids.begin(), ids.end()), 3);
      EXPECT_LT(*std::max_element(ids.begin(), ids.end()), 200);
    }
  }
}

TEST_P(SubwordTypes, TrainingIsDeterministicAndSilent) {
  const Lines lines = sentences(300, 1);
  testing::internal::CaptureStderr();
  const Subword a = Subword::train({&lines}, settings(150, GetParam()));
  const Subword b = Subword::train({&lines}, settings(150, GetParam()));
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
  EXPECT_EQ(a.bytes(), b.bytes());
}

TEST_P(SubwordTypes, BytesGiveTheSameModelAgain) {
  const Lines lines = sentences(300, 1);
  const Subword model = Subword::train({&lines}, settings(150, GetParam()));
  const Subword copy = Subword::from_bytes(model.bytes(), "copy");
  EXPECT_EQ(copy.bytes(), model.bytes());
  for (const std::string& line : sentences(50, 9)) EXPECT_EQ(copy.encode(line), model.encode(line));
}

TEST_P(SubwordTypes, TooManyPiecesAreRefusedWithTheNumberThatWorks) {
  const Lines lines = sentences(300, 1);
  const auto message = user_error([&] { Subword::train({&lines}, settings(50000, GetParam())); });
  EXPECT_TRUE(contains(message, "subword.vocabulary = 50000 is too large")) << message;
  const std::string before = "lower subword.vocabulary to ";
  ASSERT_TRUE(contains(message, before)) << message;
  const int64_t most = std::stoll(message.substr(message.find(before) + before.size()));
  EXPECT_EQ(Subword::train({&lines}, settings(most, GetParam())).size(), most);
  EXPECT_THROW(Subword::train({&lines}, settings(most + 1, GetParam())), UserError);
}

TEST_P(SubwordTypes, TooFewPiecesAreRefusedWithTheNumberThatWorks) {
  const Lines lines = sentences(300, 1);
  const auto message = user_error([&] { Subword::train({&lines}, settings(20, GetParam())); });
  const std::string before = "raise subword.vocabulary to ";
  ASSERT_TRUE(contains(message, before)) << message;
  const int64_t least = std::stoll(message.substr(message.find(before) + before.size()));
  EXPECT_EQ(least, 4 + 26 + 2);  // special pieces, letters, full stop, space mark
  EXPECT_EQ(Subword::train({&lines}, settings(least, GetParam())).size(), least);
  EXPECT_THROW(Subword::train({&lines}, settings(2, GetParam())), UserError);
}

TEST_P(SubwordTypes, TextNeverMakesControlIds) {
  Lines lines = sentences(300, 1);
  const Lines special = {"<s>",        "</s>",         "<unk>",      "<pad>", "a <s> b </s> c",
                         "<s></s><s>", "x</s>y<unk>z", "</s> </s>\t"};
  for (int i = 0; i < 40; ++i) lines.insert(lines.end(), special.begin(), special.end());
  lines.push_back("1 < 2 > 0 </");  // SentencePiece itself leaves the literal names out of training
  for (const bool byte_fallback : {false, true}) {
    auto options = settings(byte_fallback ? 406 : 150, GetParam());
    options.byte_fallback = byte_fallback;
    const Subword model = Subword::train({&lines}, options);
    for (const std::string& line : special) {
      const Ids ids = model.encode(line);
      EXPECT_GT(ids.size(), 1U) << line;
      for (const int32_t id : ids) EXPECT_GT(id, 3) << line;
      EXPECT_EQ(model.decode(ids), line.substr(0, line.find('\t')));
    }
  }
}

TEST_P(SubwordTypes, LinesThatNormaliseToNothingGiveNoPieces) {
  const Lines lines = sentences(300, 1);
  const Subword model = Subword::train({&lines}, settings(150, GetParam()));
  for (const std::string line : {"", " ", "\t  ", "\u200B", "\u200B\uFEFF", "\u3000", "\x01"}) {
    EXPECT_EQ(model.encode(line), Ids{}) << testing::PrintToString(line);
  }
  EXPECT_EQ(model.decode({}), "");
}

TEST_P(SubwordTypes, DecodeSkipsControlIdsWhereverTheyStand) {
  const Lines lines = sentences(300, 1);
  const Subword model = Subword::train({&lines}, settings(150, GetParam()));
  Ids ids = model.encode(lines[0]);
  ids.insert(ids.begin(), {2, 0});
  ids.insert(ids.begin() + 4, 3);
  ids.insert(ids.end(), {3, 0, 0});
  EXPECT_EQ(model.decode(ids), lines[0]);
  EXPECT_THROW(model.decode({150}), std::out_of_range);
  EXPECT_THROW(model.decode({-1}), std::out_of_range);
  EXPECT_THROW(model.piece(150), std::out_of_range);
  EXPECT_EQ(model.piece(3), "</s>");
}

TEST_P(SubwordTypes, UnknownCharactersGiveTheUnknownIdOrBytes) {
  const Lines lines = sentences(300, 1);
  auto options = settings(400, GetParam());
  const Subword plain = Subword::train({&lines}, settings(150, GetParam()));
  const Ids ids = plain.encode("한");
  EXPECT_EQ(std::count(ids.begin(), ids.end(), plain.unk()), 1);
  options.byte_fallback = true;
  const Subword bytes = Subword::train({&lines}, options);
  const Ids fallback = bytes.encode("한 😀");
  EXPECT_EQ(std::count(fallback.begin(), fallback.end(), bytes.unk()), 0);
  EXPECT_EQ(bytes.decode(fallback), "한 😀");
}

TEST(Subword, NormalisationIsAsAsked) {
  const Lines lines = sentences(300, 1);
  auto options = settings(150, config::SubwordType::kUnigram);
  options.normalization = "nmt_nfkc_cf";
  const Subword folds = Subword::train({&lines}, options);
  EXPECT_EQ(folds.encode("ABC ｄｅｆ"), folds.encode("abc def"));
  options.normalization = "identity";
  const Subword keeps = Subword::train({&lines}, options);
  EXPECT_NE(keeps.encode("ｄｅｆ"), keeps.encode("def"));
  options.normalization = "no_such_rule";
  EXPECT_TRUE(contains(user_error([&] { Subword::train({&lines}, options); }), "no_such_rule"));
}

// SentencePiece aborts the process on text without any character; none of these may reach it.
TEST(Subword, TextWithoutAUsableLineIsRefused) {
  for (const Lines& lines :
       {Lines{}, Lines{""}, Lines{" ", "\u200B", "\u2028"}, Lines{"\u2581", "\uFFFD"},
        Lines{"a\u2585"}, Lines{std::string(5000, 'x')}}) {
    for (const auto type : {config::SubwordType::kUnigram, config::SubwordType::kBpe}) {
      EXPECT_TRUE(contains(user_error([&] { Subword::train({&lines}, settings(50, type)); }),
                           "no line to train"));
    }
  }
}

TEST(Subword, OddLinesDoNotDisturbTraining) {
  Lines lines = sentences(300, 1);
  lines.insert(lines.begin(), {"", "\u200B", std::string("a\0b", 3), "\xFF\xFE", "a\u2585"});
  lines.insert(lines.end(), {" ", std::string(5000, 'y')});
  EXPECT_EQ(Subword::train({&lines}, settings(150, config::SubwordType::kUnigram)).size(), 150);
}

TEST(Subword, SpecialIdsAreReadFromTheModel) {
  const Subword model = Subword::from_bytes(
      user_model({{"pad_id", "7"}, {"unk_id", "5"}, {"bos_id", "6"}, {"eos_id", "4"}}), "m");
  EXPECT_EQ(model.pad(), 7);
  EXPECT_EQ(model.unk(), 5);
  EXPECT_EQ(model.bos(), 6);
  EXPECT_EQ(model.eos(), 4);
  const Lines lines = sentences(5, 1);
  Ids ids = model.encode(lines[0]);
  ids.insert(ids.begin(), 6);
  ids.insert(ids.end(), {4, 7});
  EXPECT_EQ(model.decode(ids), lines[0]);
}

TEST(Subword, AModelWithoutASpecialPieceIsRefusedWithTheTrainingFlags) {
  const auto message = [](Flags flags) {
    const std::string model = user_model(std::move(flags));
    return user_error([&] { Subword::from_bytes(model, "my.model"); });
  };
  const std::string by_default = message({});  // spm_train defines no padding by itself
  EXPECT_TRUE(contains(by_default, "my.model")) << by_default;
  EXPECT_TRUE(contains(by_default, "<pad>"));
  EXPECT_FALSE(contains(by_default, "<s>"));
  EXPECT_TRUE(contains(by_default, "--pad_id=0 --unk_id=1 --bos_id=2 --eos_id=3"));
  EXPECT_TRUE(contains(message({{"pad_id", "3"}, {"bos_id", "-1"}}), "<s>"));
  EXPECT_TRUE(contains(message({{"pad_id", "3"}, {"eos_id", "-1"}}), "</s>"));
  // "</s>" as a user-defined symbol is ordinary text, no end.
  EXPECT_TRUE(contains(message({{"pad_id", "3"}, {"user_defined_symbols", "</s>"}}), "</s>"));
}

// SentencePiece cannot encode "$" with the BPE model; with the unigram model it is text.
TEST(Subword, AModelThatTakesTextForControlIsRefused) {
  const auto flags = [](const char* type) {
    return Flags{{"pad_id", "3"}, {"eos_piece", "$"}, {"model_type", type}};
  };
  const Subword model = Subword::from_bytes(user_model(flags("unigram")), "m");
  EXPECT_EQ(model.piece(model.eos()), "$");
  for (const int32_t id : model.encode("abc $ de$")) EXPECT_NE(id, model.eos());
  const std::string bpe = user_model(flags("bpe"));
  const auto message = user_error([&] { Subword::from_bytes(bpe, "my.model"); });
  EXPECT_TRUE(contains(message, "my.model: the SentencePiece model takes the text \"$\""))
      << message;
}

TEST(Subword, FilesThatAreNoModelAreNamed) {
  const TemporaryFolder folder;
  for (const std::string& bytes : {std::string(), std::string("hello\n"), std::string(64, '\0')}) {
    const auto path = folder.write("no.model", bytes);
    EXPECT_TRUE(contains(user_error([&] { Subword::from_file(path, true); }),
                         path.string() + ": is no SentencePiece model"));
  }
  EXPECT_THROW(Subword::from_file(folder.path() / "missing", true), UserError);
  EXPECT_THROW(Subword::from_file(folder.path(), true), UserError);
  const std::string good = user_model({{"pad_id", "3"}});
  const auto cut = folder.write("cut.model", good.substr(0, good.size() / 2));
  EXPECT_THROW(Subword::from_file(cut, true), UserError);
}

// Debian's SentencePiece is 0.1.97; with 0.2.1 or later no opt-in is needed.
TEST(Subword, AnOldLibraryTakesAForeignModelOnlyWhenTrusted) {
  const TemporaryFolder folder;
  const auto path = folder.write("user.model", user_model({{"pad_id", "3"}}));
  EXPECT_EQ(Subword::from_file(path, true).pad(), 3);
  try {
    EXPECT_EQ(Subword::from_file(path, false).pad(), 3);
  } catch (const UserError& error) {
    EXPECT_TRUE(contains(error.what(), "subword.trust_model=true"));
    EXPECT_TRUE(contains(error.what(), path.string()));
  }
}

// --- BPE-dropout

class SubwordSampling : public testing::Test {
 protected:
  const Lines lines_ = sentences(300, 3);
  const Subword model_ = Subword::train({&lines_}, settings(300, config::SubwordType::kBpe));
};

int64_t pieces_of(const std::vector<Ids>& all) {
  int64_t count = 0;
  for (const Ids& ids : all) count += static_cast<int64_t>(ids.size());
  return count;
}

TEST_F(SubwordSampling, WithoutDropoutPiecesAreTheUsualOnes) {
  std::vector<Ids> usual;
  for (const std::string& line : lines_) usual.push_back(model_.encode(line));
  EXPECT_EQ(model_.sample(lines_, 0, 1), usual);
}

TEST_F(SubwordSampling, MoreDropoutGivesMorePiecesOfTheSameText) {
  int64_t fewest = pieces_of(model_.sample(lines_, 0, 1));
  for (const double dropout : {0.1, 0.3, 0.6, 0.9}) {
    const auto sampled = model_.sample(lines_, dropout, 1);
    for (size_t i = 0; i < lines_.size(); ++i) EXPECT_EQ(model_.decode(sampled[i]), lines_[i]);
    EXPECT_GT(pieces_of(sampled), fewest * 105 / 100);
    fewest = pieces_of(sampled);
  }
}

// "e" becomes two symbols, word border and letter, with one merge between them.
TEST_F(SubwordSampling, AMergeIsLeftOutWithTheChanceAskedFor) {
  ASSERT_EQ(model_.encode("e").size(), 1u);
  constexpr int64_t kDraws = 20000;
  const Lines words(kDraws, "e");
  for (const double dropout : {0.05, 0.1, 0.5, 0.8}) {
    const auto left_out =
        static_cast<double>(pieces_of(model_.sample(words, dropout, 7)) - kDraws) / kDraws;
    EXPECT_NEAR(left_out, dropout, 5 * std::sqrt(dropout * (1 - dropout) / kDraws));
  }
}

TEST_F(SubwordSampling, PiecesAreAFunctionOfTheSeedNotOfHistoryOrThreads) {
  constexpr uint32_t kUnset = std::numeric_limits<uint32_t>::max();  // SentencePiece's "no seed"
  for (const uint32_t seed : {0u, 1u, 5489u, kUnset - 1, kUnset}) {
    const auto first = model_.sample(lines_, 0.3, seed);
    EXPECT_NE(model_.sample(lines_, 0.3, seed + 2), first);
    EXPECT_EQ(model_.sample(lines_, 0.3, seed), first);
    EXPECT_EQ(Subword::from_bytes(model_.bytes(), "copy").sample(lines_, 0.3, seed), first);
    std::vector<std::vector<Ids>> side_by_side(4);
    std::vector<std::thread> threads;
    for (auto& result : side_by_side) {
      threads.emplace_back([&] { result = model_.sample(lines_, 0.3, seed); });
    }
    for (std::thread& thread : threads) thread.join();
    for (const auto& result : side_by_side) EXPECT_EQ(result, first);
  }
}

TEST(Subword, KindsAreToldApart) {
  const auto kind = [](const char* type) {
    Flags flags = {{"pad_id", "3"}, {"model_type", type}, {"vocab_size", "30"}};
    if (std::string(type) == "unigram" || std::string(type) == "bpe") flags["vocab_size"] = "120";
    return Subword::from_bytes(user_model(flags), "m").kind();
  };
  EXPECT_EQ(kind("bpe"), "bpe");
  EXPECT_EQ(kind("unigram"), "unigram");
  EXPECT_EQ(kind("char"), "word or char");
  EXPECT_EQ(kind("word"), "word or char");
}

}  // namespace
}  // namespace headwise::data
