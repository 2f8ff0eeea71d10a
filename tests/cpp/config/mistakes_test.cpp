// Every kind of mistake in one value or key ends in one line that names place, found and needed.
#include <gtest/gtest.h>

#include "tests/cpp/config/config_helpers.h"

namespace headwise::config {
namespace {

TEST(Mistakes, UnknownKeysNameTheNearestKnownOne) {
  const struct {
    std::string text, key, meant;
  } cases[] = {
      {"[schedule]\nlearningrate = 1.0", "schedule.learningrate", "schedule.learning_rate"},
      {"[train]\nlearning_rate = 1.0", "train.learning_rate", "schedule.learning_rate"},
      {"[model]\nlearning-rate = 1.0", "model.learning-rate", "schedule.learning_rate"},
      {"[train]\nmax-steps = 1", "train.max-steps", "train.max_steps"},
      {"[train]\nMax_Steps = 1", "train.Max_Steps", "train.max_steps"},
      {"\nwidth = 4", "width", "model.width"},
      {"[modle]\nwidth = 4", "modle.width", "model.width"},
      {"[Model]\nwidth = 4", "Model.width", "model.width"},
      {"[train]\nmodel.width = 4", "train.model.width", "model.width"},
      {"[train]\nbatch_token = 4", "train.batch_token", "train.batch_tokens"},
      {"\n\"model.width\" = 4", "\"model.width\"", "model.width"},
      {"[model]\nseed = 4", "model.seed", "train.seed"},
      {"[optimizer]\nkeep = 4", "optimizer.keep", "checkpoint.keep"},
      {"[subword]\ntyp = 'bpe'", "subword.typ", "subword.type"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(refusal(c.text),
              "run.toml:2: key " + c.key + ": unknown; did you mean \"" + c.meant + "\"?");
  }
  EXPECT_EQ(refusal("[trian]"), "run.toml:1: section trian: unknown; did you mean \"train\"?");
  EXPECT_EQ(refusal("", {"data.kind=embedded", "train.max_steps=1", "train.sed=1"}),
            "--set: key train.sed: unknown; did you mean \"train.seed\"?");
}

TEST(Mistakes, WrongTypesAndRangesNameWhatIsNeeded) {
  const struct {
    std::string section, line, found, needed;
  } cases[] = {
      {"train", "seed = \"1\"", "\"1\" (a text)", "a whole number, at least 0"},
      {"train", "seed = 1.0", "1.0 (a decimal number)", "a whole number, at least 0"},
      {"train", "seed = true", "true (a truth value)", "a whole number, at least 0"},
      {"train", "seed = -1", "-1 (a whole number)", "a whole number, at least 0"},
      {"train", "ema = 1", "1 (a whole number)", "a number, at least 0 and below 1"},
      {"train", "ema = nan", "nan (a decimal number)", "a number, at least 0 and below 1"},
      {"train", "clip_norm = inf", "inf (a decimal number)", "a number, at least 0"},
      {"train", "clip_norm = -0.5", "-0.5 (a decimal number)", "a number, at least 0"},
      {"train", "ema = '0.9'", "\"0.9\" (a text)", "a number, at least 0 and below 1"},
      {"train", "log_every = 0", "0 (a whole number)", "a whole number, at least 1"},
      {"train", "seed = 2024-01-01", "a date or time", "a whole number, at least 0"},
      {"model", "tied_output = 1", "1 (a whole number)", "true or false"},
      {"model", "tied_output = \"true\"", "\"true\" (a text)", "true or false"},
      {"model", "norm = \"Pre\"", "\"Pre\" (a text)", "\"pre\" or \"post\""},
      {"model", "norm = 1", "1 (a whole number)", "\"pre\" or \"post\""},
      {"model", "encoder_heads = [4, 0, 4, 4]", "[4, 0, 4, 4] (a list)",
       "a whole number or a list of them, at least 1 and at most 65536"},
      {"model", "encoder_heads = [4, 4.0]", "a list of other things than whole numbers",
       "a whole number or a list of them, at least 1 and at most 65536"},
      {"model", "width = 0", "0 (a whole number)", "a whole number, at least 1 and at most 65536"},
      {"model", "width = 9223372036854775807", "9223372036854775807 (a whole number)",
       "a whole number, at least 1 and at most 65536"},
      {"data", "root = 3", "3 (a whole number)", "a text in quotes"},
      {"data", "max_length_ratio = 0.5", "0.5 (a decimal number)", "a number, 0, or at least 1"},
      {"optimizer", "epsilon = 0.0", "0.0 (a decimal number)", "a number, above 0"},
      {"optimizer", "beta2 = 1.0", "1.0 (a decimal number)", "a number, at least 0 and below 1"},
      {"subword", "normalization = \"nfd\"", "\"nfd\" (a text)",
       "\"nmt_nfkc\", \"nmt_nfkc_cf\", \"nfkc\", \"nfkc_cf\" or \"identity\""},
  };
  for (const auto& c : cases) {
    const std::string key = c.section + "." + c.line.substr(0, c.line.find(' '));
    EXPECT_EQ(refusal("[" + c.section + "]\n" + c.line),
              "run.toml:2: key " + key + ": found " + c.found + "; needed " + c.needed);
  }
  EXPECT_EQ(refusal("train = 3"),
            "run.toml:1: key train: found 3 (a whole number); needed a section, [train]");
  EXPECT_TRUE(contains(refusal("[[train]]\nseed = 1"), "needed a section, [train]"));
  EXPECT_TRUE(contains(refusal("[train.seed]"), "run.toml:1: key train.seed: found a table"));
}

TEST(Mistakes, SyntaxErrorsNameTheLine) {
  const std::string broken[] = {"[train]\nseed = \n",
                                "[train]\nseed = 1 2\n",
                                "[train]\nseed 1\n",
                                "[train]\n[model\n",
                                "[train]\nema = 'open\n",
                                "[train]\nseed = bare\n",
                                std::string("[train]\nseed\0 = 1\n", 18)};
  for (const std::string& text : broken) {
    EXPECT_TRUE(contains(refusal(text), "run.toml:2: this is not TOML: ")) << refusal(text);
    EXPECT_EQ(line_count(refusal(text)), 1U) << refusal(text);
  }
  EXPECT_TRUE(contains(refusal("[train]\nseed = 1\nseed = 2\n"), "run.toml:3: this is not TOML"));
  EXPECT_TRUE(contains(refusal("[train]\nseed = 1\n[train]\n"), "run.toml:3: this is not TOML"));
}

TEST(Mistakes, SetWithoutAValueOrKey) {
  const auto with = [](const std::string& argument) {
    return refusal("", {"data.kind=embedded", "train.max_steps=1", argument});
  };
  EXPECT_EQ(with("train.seed"), "--set: found \"train.seed\"; needed section.key=value");
  EXPECT_TRUE(contains(with("=3"), "--set: key "));
  EXPECT_EQ(with("train.seed="),
            "--set: key train.seed: found \"\" (a text); needed a whole number, at least 0");
  EXPECT_EQ(with("train.seed=two"),
            "--set: key train.seed: found \"two\" (a text); needed a whole number, at least 0");
  EXPECT_EQ(
      with("model.encoder_heads=[1,"),
      "--set: key model.encoder_heads: found \"[1,\" (a text); needed a whole number or a list "
      "of them, at least 1 and at most 65536");
  EXPECT_TRUE(contains(with("data.root=\"open"), "needed a value in TOML syntax"));
  EXPECT_TRUE(contains(with("data.root=caf\xE9"), "needed UTF-8"));
  EXPECT_TRUE(contains(with("train.seed=1\nthreads = 2"), "--set: key train.seed: found"));
}

TEST(Mistakes, AllAreReportedAtOnce) {
  const std::string message = refusal(
      "[train]\nsed = 1\nema = 2.0\n[model]\nnorm = 3\nwidth = 6\nencoder_heads = 4\n"
      "decoder_heads = 2\ncross_heads = 3\n",
      {"data.kind=embedded", "train.max_step=1", "nonsense"});
  EXPECT_EQ(line_count(message), 7U) << message;
  for (const char* part : {"6 mistakes", "run.toml:2: key train.sed", "run.toml:3: key train.ema",
                           "run.toml:5: key model.norm", "run.toml:6: key model.width",
                           "key train.max_step: unknown", "found \"nonsense\""}) {
    EXPECT_TRUE(contains(message, part)) << part << " in " << message;
  }
  EXPECT_FALSE(contains(message, "no stop")) << "the stop was there, but mistyped";
}

}  // namespace
}  // namespace headwise::config
