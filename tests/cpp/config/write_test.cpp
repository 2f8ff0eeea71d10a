// Config -> TOML -> Config loses nothing, and the printed reference is complete and true.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <random>
#include <regex>
#include <set>

#include "src/config/schema.h"
#include "tests/cpp/config/config_helpers.h"

namespace headwise::config {
namespace {

std::string file_text(const std::string& path) {
  std::ifstream in(std::string(HEADWISE_SOURCE_DIR) + "/" + path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// Valid with any word in place of any other.
Config valid_config() {
  return parse(R"(
      [data]
      train_source = "a.en"
      train_target = "a.ko"
      valid_source = "b.en"
      valid_target = "b.ko"
      [train]
      max_steps = 10)",
               "run.toml", {})
      .config;
}

/// Written and read again.
Config round_trip(const Config& config) {
  return parse(to_toml({config, {}}), "again.toml", {}).config;
}

TEST(Write, TextsSurvive) {
  const std::string texts[] = {"",
                               "plain",
                               "a \"quoted\" 'word'",
                               "back\\slash \\u0041 \\n",
                               "line\nfeed\r\n\ttab\b\f",
                               std::string("\x01\x1f\x7f") + "control",
                               "한국어 e\u0301 \u2028 \U0001F600 \uFEFF \u0085",
                               "# no comment",
                               "\"\"\"",
                               " spaces "};
  for (const std::string& text : texts) {
    Config config = valid_config();
    config.data.root = text;
    EXPECT_EQ(round_trip(config).data.root, text);
  }
}

TEST(Write, NumbersSurviveBitForBit) {
  std::mt19937_64 random(7);
  Config config = valid_config();
  for (int i = 0; i < 300; ++i) {
    // Every binary exponent, so that tiny, huge and subnormal numbers are among them.
    const double mantissa = std::uniform_real_distribution<double>(0.5, 1)(random);
    config.schedule.learning_rate = std::ldexp(mantissa, static_cast<int>(random() % 2090) - 1073);
    config.model.dropout = std::uniform_real_distribution<double>(0, 1)(random);
    config.train.seed = static_cast<int64_t>(random() >> 1);
    if (!(config.schedule.learning_rate > 0)) continue;
    const Config again = round_trip(config);
    ASSERT_EQ(again.schedule.learning_rate, config.schedule.learning_rate);
    ASSERT_EQ(again.model.dropout, config.model.dropout);
    ASSERT_EQ(again.train.seed, config.train.seed);
  }
  for (const double number :
       {1e6, 123456789.0, 1e15, 1e22, 0.1, 1e-9, 4.9e-324, std::numeric_limits<double>::max()}) {
    config.schedule.learning_rate = number;
    EXPECT_EQ(round_trip(config).schedule.learning_rate, number);
  }
}

TEST(Write, EveryWordAndFlagSurvives) {
  for (const Section& section : schema()) {
    for (const Key& key : section.keys) {
      for (const std::string& word : key.words) {
        Config config = valid_config();
        key.set(config, word);
        const Config again = round_trip(config);
        EXPECT_EQ(std::get<std::string>(key.get(again)), word) << key.name;
        EXPECT_TRUE(differences(config, again).empty()) << key.name;
      }
    }
  }
}

TEST(Write, OriginsAreCommentsWhateverTheFileIsCalled) {
  const Resolved r =
      parse("[train]\nmax_steps = 2\n[data]\nkind = 'embedded'", "a\nb\"#.toml", {"train.seed=9"});
  const std::string text = to_toml(r);
  EXPECT_TRUE(contains(text, "max_steps = 2  # a\\nb\\\"#.toml:2\n")) << text;
  EXPECT_TRUE(contains(text, "seed = 9  # --set\n"));
  EXPECT_TRUE(contains(text, "threads = 0  # default\n"));
  EXPECT_TRUE(differences(r.config, parse(text, "again", {}).config).empty());
}

TEST(Write, ReferenceReadsBackAsTheDefaults) {
  const Config config = parse(reference(), "reference", kEnough).config;
  std::set<std::string> changed;
  for (const Change& change : differences(Config{}, config)) changed.insert(change.key);
  EXPECT_EQ(changed, (std::set<std::string>{"data.kind", "train.max_steps"}));
}

TEST(Write, DifferencesNameBothValues) {
  Config before, after;
  after.model.encoder_heads = {4, 2};
  after.schedule.learning_rate = 0.001;
  after.data.root = "x";
  const auto changes = differences(before, after);
  ASSERT_EQ(changes.size(), 3U);
  EXPECT_EQ(changes[0].key + changes[0].before + changes[0].after, "data.root\"\"\"x\"");
  EXPECT_EQ(changes[1].key + changes[1].before + changes[1].after, "model.encoder_heads4[4, 2]");
  EXPECT_EQ(changes[2].key + changes[2].before + changes[2].after,
            "schedule.learning_rate0.0030.001");
}

/// Members of the struct behind a section, read from the header itself.
std::set<std::string> members_of(const std::string& header, const std::string& type) {
  const size_t begin = header.find("struct " + type + " {");
  std::string body = header.substr(begin, header.find("\n};", begin) - begin);
  body = std::regex_replace(body, std::regex("//[^\n]*"), "");
  body = std::regex_replace(body, std::regex("\\{[^{}]*\\}(?=[,;])"), "");  // initial values
  std::set<std::string> members;
  const std::regex name("([a-z_0-9]+)\\s*(=[^,;]*)?[,;]");
  for (std::sregex_iterator it(body.begin(), body.end(), name), end; it != end; ++it) {
    members.insert((*it)[1]);
  }
  return members;
}

TEST(Write, EveryMemberOfConfigHasAKey) {
  const std::string header = file_text("src/config/config.h");
  const std::string body = header.substr(header.find("struct Config {"));
  const std::regex section_line("(\\w+Config) (\\w+);");
  size_t sections = 0;
  for (std::sregex_iterator it(body.begin(), body.end(), section_line), end; it != end; ++it) {
    std::set<std::string> keys;
    for (const Section& section : schema()) {
      if (section.name != (*it)[2]) continue;
      ++sections;
      for (const Key& key : section.keys) keys.insert(key.member());
    }
    EXPECT_EQ(keys, members_of(header, (*it)[1])) << (*it)[2];
  }
  EXPECT_EQ(sections, schema().size());
}

TEST(Write, DocsShowTheReference) {
  const std::string docs = file_text("docs/config.md");
  const size_t begin = docs.find("```toml\n# Every key");
  ASSERT_NE(begin, std::string::npos);
  const size_t text = begin + std::string("```toml\n").size();
  EXPECT_EQ(docs.substr(text, docs.find("```", text) - text), reference())
      << "put the output of `headwise config` into docs/config.md";
}

}  // namespace
}  // namespace headwise::config
