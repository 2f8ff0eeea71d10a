// What a file and --set say arrives in Config, with its origin.
#include "src/config/load.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/cpp/config/config_helpers.h"

namespace headwise::config {
namespace {

TEST(Load, FileValuesArriveAndTheRestKeepsItsDefault) {
  const Resolved r = parse(
      "[data]\nkind = \"embedded\"\nroot = \"relative/folder\"\n"
      "[model]\nwidth = 64\nencoder_heads = [8, 4, 2, 1]\nhead_width = 8\ndropout = 0.25\n"
      "norm = \"post\"\ntied_output = false\n"
      "[schedule]\nkind = \"constant\"\n[train]\nmax_epochs = 2\nclip_norm = 2\n",
      "run.toml", {});
  EXPECT_EQ(r.config.data.kind, DataKind::kEmbedded);
  EXPECT_EQ(r.config.data.root, "relative/folder");
  EXPECT_EQ(r.config.model.width, 64);
  EXPECT_EQ(r.config.model.encoder_heads, (std::vector<int64_t>{8, 4, 2, 1}));
  EXPECT_EQ(r.config.model.dropout, 0.25);
  EXPECT_EQ(r.config.model.norm, NormPlacement::kPost);
  EXPECT_FALSE(r.config.model.tied_output);
  EXPECT_EQ(r.config.schedule.kind, ScheduleKind::kConstant);
  EXPECT_EQ(r.config.train.max_epochs, 2);
  EXPECT_EQ(r.config.train.clip_norm, 2.0) << "a whole number is a number too";
  EXPECT_EQ(r.config.model.feed_forward, Config{}.model.feed_forward);
  EXPECT_EQ(r.config.train.seed, Config{}.train.seed);
}

TEST(Load, HeadListsTakeANumberOrAList) {
  const auto heads = [](const std::string& value) {
    return parse("[model]\ndecoder_kv_heads = " + value, "run.toml", kEnough)
        .config.model.decoder_kv_heads;
  };
  EXPECT_EQ(heads("2"), (std::vector<int64_t>{2}));
  EXPECT_EQ(heads("[2]"), (std::vector<int64_t>{2}));
  EXPECT_EQ(heads("[1, 2, 4, 1,]"), (std::vector<int64_t>{1, 2, 4, 1}))
      << "a trailing comma is TOML";
  EXPECT_EQ(heads("[]"), (std::vector<int64_t>{}));
}

TEST(Load, OriginsSayWhoSetAValue) {
  const Resolved r =
      parse("[train]\nseed = 3\nthreads = 2\n\nmax_steps = 7\n[data]\nkind='embedded'", "run.toml",
            {"train.threads=1"});
  EXPECT_EQ(r.origins.at("train.seed"), "run.toml:2");
  EXPECT_EQ(r.origins.at("train.threads"), "--set");
  EXPECT_EQ(r.origins.at("train.max_steps"), "run.toml:5");
  EXPECT_EQ(r.origins.at("train.ema"), "default");
}

TEST(Load, SetTakesTomlValuesAndBareWords) {
  const Config c =
      parse(
          "[train]\nseed = 3", "run.toml",
          {"data.kind=embedded", "train.max_steps = 1_000", "train.seed=4", "train.seed=5",
           "model.encoder_heads=[4, 2, 2, 4]", "model.norm='post'", "optimizer.epsilon=1e-6",
           "model.attention_bias=false", "data.root=/a b=c/#d", "data.train_source=2024-01-01",
           "data.train_target=\"quoted \\\" \\u00e9\"", "data.valid_source=", "subword.model=true"})
          .config;
  EXPECT_EQ(c.train.max_steps, 1000);
  EXPECT_EQ(c.train.seed, 5) << "the last one wins";
  EXPECT_EQ(c.model.encoder_heads, (std::vector<int64_t>{4, 2, 2, 4}));
  EXPECT_EQ(c.model.norm, NormPlacement::kPost);
  EXPECT_EQ(c.optimizer.epsilon, 1e-6);
  EXPECT_FALSE(c.model.attention_bias);
  EXPECT_EQ(c.data.root, "/a b=c/#d");
  EXPECT_EQ(c.data.train_source, "2024-01-01");
  EXPECT_EQ(c.data.train_target, "quoted \" \u00e9");
  EXPECT_EQ(c.data.valid_source, "");
  EXPECT_EQ(c.subword.model, "true");
}

TEST(Load, ReadsAFileAndRefusesWhatIsNone) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "headwise_load_test";
  fs::create_directories(folder);
  const fs::path file = folder / "run.toml";
  std::ofstream(file) << "\xEF\xBB\xBF[train]\r\nmax_steps = 3\r\n";  // byte-order mark, CRLF
  const Resolved r = load(file, {"data.kind=embedded"});
  EXPECT_EQ(r.config.train.max_steps, 3);
  EXPECT_EQ(r.origins.at("train.max_steps"), file.string() + ":2");

  const auto message = [](const fs::path& path) -> std::string {
    try {
      load(path, kEnough);
    } catch (const UserError& error) {
      return error.exit_code() == kExitUsage ? error.what() : "wrong exit code";
    }
    return "";
  };
  EXPECT_EQ(message(folder / "none.toml"),
            (folder / "none.toml").string() +
                ": No such file or directory; needed a configuration file (TOML)");
  EXPECT_TRUE(contains(message(folder), "found a folder"));
  EXPECT_TRUE(contains(message(file / "below"), "Not a directory"));
  std::ofstream(file) << "[data]\nroot = \"caf\xE9\"\n";
  EXPECT_TRUE(contains(message(file), "run.toml:2: ")) << message(file);
  fs::remove_all(folder);
}

}  // namespace
}  // namespace headwise::config
