#include "src/evaluate/translator.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "src/config/error.h"
#include "src/evaluate/line_parts.h"
#include "tests/cpp/evaluate/support.h"

namespace headwise::evaluate {
namespace {

using testing::random_model;
using testing::sentence;
using testing::steer;
using testing::translate;
using testing::translate_options;
using testing::vocabularies;

void expect_equal(const TranslatedLine& actual, const TranslatedLine& expected) {
  EXPECT_EQ(actual.parts, expected.parts);
  ASSERT_EQ(actual.nbest.size(), expected.nbest.size());
  for (size_t k = 0; k < actual.nbest.size(); ++k) {
    const Translation &a = actual.nbest[k], &b = expected.nbest[k];
    EXPECT_EQ(a.text, b.text);
    EXPECT_NEAR(a.score, b.score, 1e-5);
    EXPECT_NEAR(a.log_probability, b.log_probability, 1e-5 * std::max(1.0, -b.log_probability));
    EXPECT_EQ(a.finished, b.finished);
  }
}

TEST(Translator, NeighboursAndBatchSizeChangeNothing) {
  model::Transformer model = random_model(model::testing::small_config());
  const auto lines = testing::lines_of_all_lengths(40);
  for (const int64_t beam : {1, 5}) {
    const auto together = translate(model, translate_options(beam, 5000), lines);
    const auto some = translate(model, translate_options(beam, 50), lines);
    const auto alone = translate(model, translate_options(beam, 1), lines);
    std::set<std::string> texts;
    for (size_t i = 0; i < lines.size(); ++i) {
      SCOPED_TRACE(i);
      expect_equal(together[i], alone[i]);
      expect_equal(some[i], alone[i]);
      texts.insert(alone[i].nbest[0].text);
    }
    EXPECT_GT(texts.size(), 20u) << "a model that says the same of all lines shows nothing";
  }
}

TEST(Translator, PaddingIsNeverSeen) {
  model::Transformer model = random_model(testing::config_with_own_output());
  const std::vector<std::string> lines = {sentence(3, 1), sentence(100, 2)};
  const auto before = translate(model, translate_options(5), {lines[0]});
  {
    at::NoGradGuard no_grad;
    const int64_t pad = vocabularies().source.pad();
    model->named_parameters()["source_embedding.weight"].select(0, pad).fill_(1e6);
  }
  expect_equal(translate(model, translate_options(5), lines)[0], before[0]);
}

TEST(Translator, BlankLinesStayEmptyAndLeaveTheOthersAlone) {
  model::Transformer model = random_model(model::testing::small_config());
  const std::string text = sentence(4, 7);
  const auto expected = translate(model, translate_options(3), {text})[0];
  const std::vector<std::string> blanks = {"", "  ", "\t", "\u200b", "\u3000", "\r"};
  for (const int64_t batch_tokens : {1, 1000}) {
    std::vector<std::string> lines = blanks;
    lines.push_back(text);
    lines.insert(lines.end(), blanks.begin(), blanks.end());
    const auto results = translate(model, translate_options(3, batch_tokens), lines);
    ASSERT_EQ(results.size(), lines.size());
    for (size_t i = 0; i < lines.size(); ++i) {
      SCOPED_TRACE(i);
      if (i == blanks.size()) {
        expect_equal(results[i], expected);
      } else {
        expect_equal(results[i], {{{"", 0, 0, true}}, 1});
      }
    }
    EXPECT_EQ(translate(model, translate_options(3), blanks).size(), blanks.size());
  }
  EXPECT_TRUE(translate(model, translate_options(3), {}).empty());
}

TEST(Translator, BlankForAReaderIsBlankForAModelWithoutNormalisation) {
  config::SubwordConfig options;
  options.vocabulary = 30;
  options.normalization = "identity";
  const std::vector<std::string> text = {sentence(30, 1), sentence(30, 2)};
  const data::Subword subword = data::Subword::train({&text}, options);
  ASSERT_FALSE(subword.encode("\u3000").empty());
  at::manual_seed(1);
  model::Transformer model(model::testing::small_config(), subword.size(), subword.size());
  Translator translator(model::pack(model), {subword, subword, true}, translate_options(1));
  EXPECT_EQ(translator.translate({"\u3000"}, testing::never_stop)[0].nbest[0].text, "");
}

TEST(Translator, AnEndThatComesFirstIsAnEmptyTranslationWithAFiniteScore) {
  model::Transformer model = random_model(testing::config_with_own_output());
  steer(model, vocabularies().target.eos(), 50);
  for (const int64_t beam : {1, 4}) {
    const Translation best =
        translate(model, translate_options(beam), {sentence(5, 1)})[0].nbest[0];
    EXPECT_EQ(best.text, "");
    EXPECT_TRUE(best.finished);
    EXPECT_NEAR(best.log_probability, 0, 1e-3);
    EXPECT_TRUE(std::isfinite(best.score));
  }
}

TEST(Translator, ACutAtTheLengthLimitIsTold) {
  model::Transformer model = random_model(testing::config_with_own_output());
  steer(model, vocabularies().target.eos(), -50);
  TranslateOptions options = translate_options(2);
  options.decoding.max_length_factor = 0.5;
  options.decoding.max_length_extra = 3;
  const std::string line = sentence(9, 1);
  const auto pieces = double(vocabularies().source.encode(line).size());
  const Translation best = translate(model, options, {line})[0].nbest[0];
  EXPECT_FALSE(best.finished);
  // The normalised score tells how many pieces there were.
  EXPECT_NEAR(best.log_probability / best.score, std::floor(0.5 * pieces) + 3, 1e-6);
}

TEST(Translator, NbestComesBestFirstAndItsFirstIsTheBest) {
  model::Transformer model = random_model(model::testing::small_config());
  const auto lines = testing::lines_of_all_lengths(12);
  TranslateOptions options = translate_options(6);
  const auto single = translate(model, options, lines);
  options.nbest = 6;
  const auto many = translate(model, options, lines);
  for (size_t i = 0; i < lines.size(); ++i) {
    ASSERT_EQ(many[i].nbest.size(), 6u);
    expect_equal({{many[i].nbest[0]}, 1}, single[i]);
    for (size_t k = 1; k < 6; ++k) {
      EXPECT_GE(many[i].nbest[k - 1].score, many[i].nbest[k].score);
    }
  }
}

TEST(Translator, APrefixIsForcedAndNeitherLimitedNorScored) {
  model::Transformer model = random_model(testing::config_with_own_output());
  steer(model, vocabularies().target.eos(), 50);
  TranslateOptions options = translate_options(3);
  options.prefix = "the old red house sees the river";
  options.decoding.max_length_factor = 0;
  options.decoding.max_length_extra = 2;  // far shorter than the prefix
  const Translation best = translate(model, options, {sentence(5, 1)})[0].nbest[0];
  EXPECT_EQ(best.text, options.prefix);
  EXPECT_TRUE(best.finished);
  EXPECT_NEAR(best.log_probability, 0, 1e-3) << "only the end token is predicted";
  EXPECT_EQ(translate(model, options, {" "})[0].nbest[0].text, "") << "nothing starts with nothing";
}

/// Twelve pieces a part; lines of short words, so that cuts fall between words.
TranslateOptions options_for_long_lines() {
  TranslateOptions options = translate_options(2);
  options.max_length = 13;
  return options;
}

TEST(Translator, ALongLineIsTranslatedInPartsThatAddUp) {
  model::Transformer model = random_model(model::testing::small_config());
  TranslateOptions options = options_for_long_lines();
  options.prefix = "the ship";
  const data::Subword& subword = vocabularies().source;
  const std::string line = sentence(30, 4);
  std::vector<std::string> texts;
  for (const data::Ids& part : parts_of(line, subword, 12)) {
    texts.push_back(subword.decode(part));
    ASSERT_EQ(subword.encode(texts.back()), part);
  }
  const std::vector<std::string> lines = {sentence(2, 1), line, sentence(3, 1)};
  const TranslatedLine whole = translate(model, options, lines)[1];
  EXPECT_EQ(whole.parts, int64_t(texts.size()));

  Translation expected = translate(model, options, {texts[0]})[0].nbest[0];
  options.prefix.clear();  // the start of the line is forced, not that of every part
  for (size_t i = 1; i < texts.size(); ++i) {
    const Translation part = translate(model, options, {texts[i]})[0].nbest[0];
    expected.text += " " + part.text;
    expected.log_probability += part.log_probability;
    expected.score += part.score;
    expected.finished = expected.finished && part.finished;
  }
  expect_equal(whole, {{expected}, int64_t(texts.size())});
}

TEST(Translator, ALongLineIsRefusedByNumber) {
  model::Transformer model = random_model(model::testing::small_config());
  TranslateOptions options = options_for_long_lines();
  options.decoding.long_lines = config::LongLines::kRefuse;
  Translator translator(model::pack(model), vocabularies(), options);
  const std::vector<std::string> lines = {sentence(2, 1), "", sentence(30, 4)};
  try {
    translator.translate(lines, testing::never_stop, 2001);
    FAIL() << "not refused";
  } catch (const UserError& error) {
    EXPECT_NE(std::string(error.what()).find("line 2003"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("12 pieces"), std::string::npos) << error.what();
  }
  const std::vector<std::string> blank = {std::string(500, ' ')};
  EXPECT_EQ(translator.translate(blank, testing::never_stop)[0].nbest[0].text, "");
}

TEST(Translator, AStopComesThroughWithinAStep) {
  model::Transformer model = random_model(model::testing::small_config());
  Translator translator(model::pack(model), vocabularies(), translate_options(2));
  int calls = 0;
  const auto stop = [&] {
    if (++calls == 3) throw Interrupted{2};
  };
  EXPECT_THROW(translator.translate({sentence(10, 1)}, stop), Interrupted);
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace headwise::evaluate
