// Keys that are right by themselves and wrong together.
#include <gtest/gtest.h>

#include "tests/cpp/config/config_helpers.h"

namespace headwise::config {
namespace {

/// The refusal of kEnough with `more` on top.
std::string with(const std::vector<std::string>& more) {
  std::vector<std::string> overrides = kEnough;
  overrides.insert(overrides.end(), more.begin(), more.end());
  return refusal("", overrides);
}

TEST(Relations, Accepted) {
  const std::vector<std::string> good[] = {
      {},
      {"model.width=10", "model.encoder_heads=5", "model.decoder_heads=1", "model.cross_heads=2"},
      {"model.width=7", "model.head_width=6", "model.positions=rotary"},
      {"model.encoder_heads=[8,4,2,1]", "model.encoder_kv_heads=[2,4,1,1]"},
      {"model.decoder_heads=8", "model.decoder_kv_heads=[8,4,2,1]"},
      {"model.encoder_layers=2", "model.encoder_heads=[8,4]", "model.encoder_kv_heads=2"},
      {"model.positions=rotary", "model.width=12", "model.encoder_heads=2", "model.decoder_heads=2",
       "model.cross_heads=4"},  // 3 wide, but cross does not rotate
      {"model.output_projection=false", "model.head_width=32"},
      {"subword.joint=false", "model.embeddings=separate", "subword.source_model=a",
       "subword.target_model=b"},
      {"subword.type=bpe", "subword.source_dropout=0.1", "subword.target_dropout=0.2"},
      {"subword.model=a", "subword.source_dropout=0.1"},  // the file says what it is
      {"subword.joint=false", "model.embeddings=separate", "subword.source_model=a",
       "subword.target_model=b", "subword.target_dropout=0.1"},
      {"schedule.kind=cosine", "schedule.horizon=401"},
      {"schedule.kind=constant", "schedule.warmup=0", "schedule.horizon=1"},
      {"validation.every=0", "data.embedded_valid=0", "validation.bleu=false"},
      {"train.max_steps=0", "validation.patience=3"},
      {"train.average_last=3"},
      {"train.precision=bf16"},
      {"train.precision=auto", "model.feed_forward=100"},
  };
  for (const auto& overrides : good) EXPECT_EQ(with(overrides), "");
}

TEST(Relations, RefusedWithBothNumbers) {
  const struct {
    std::vector<std::string> overrides;
    std::string message;
  } cases[] = {
      {{"model.width=100", "model.encoder_heads=8"},
       "key model.width: found 100 with model.encoder_heads = 8; needed a multiple of 8, or a "
       "head_width of its own"},
      {{"model.cross_heads=[4,4,3,4]"},
       "key model.width: found 128 with model.cross_heads = 3; needed a multiple of 3, or a "
       "head_width of its own"},
      {{"model.decoder_kv_heads=3"},
       "key model.decoder_kv_heads: found 3 with model.decoder_heads = 4; needed a divisor of 4"},
      {{"model.cross_kv_heads=8"},
       "key model.cross_kv_heads: found 8 with model.cross_heads = 4; needed a divisor of 4"},
      {{"model.encoder_heads=[8,4,2,1]", "model.encoder_kv_heads=[4,4,2,2]"},
       "key model.encoder_kv_heads: found 2 in layer 4 with model.encoder_heads = 1; needed a "
       "divisor of 1"},
      {{"model.encoder_heads=[4,4]"},
       "key model.encoder_heads: found 2 numbers with model.encoder_layers = 4; needed 1 or 4"},
      {{"model.encoder_heads=[]"},
       "key model.encoder_heads: found 0 numbers with model.encoder_layers = 4; needed 1 or 4"},
      {{"model.cross_kv_heads=[1,1,1]"},
       "key model.cross_kv_heads: found 3 numbers with model.decoder_layers = 4; needed 1 or 4"},
      {{"model.positions=rotary", "model.head_width=5", "model.decoder_heads=4"},
       "found a head width of 5 with model.encoder_heads = 4; needed an even one for rotary"},
      {{"model.width=5", "model.encoder_heads=1", "model.decoder_heads=1", "model.cross_heads=1"},
       "key model.width: found 5; needed an even one for sinusoidal positions"},
      {{"model.output_projection=false", "model.head_width=16"},
       "key model.head_width: found 16 with model.encoder_heads = 4; needed heads * head_width = "
       "width = 128"},
      {{"subword.joint=false"},
       "key model.embeddings: found \"shared\" with subword.joint = false; needed \"separate\""},
      {{"subword.source_model=a"},
       "key subword.source_model: found a file with subword.joint = true"},
      {{"subword.joint=false", "model.embeddings=separate", "subword.model=a"},
       "key subword.model: found a file with subword.joint = false"},
      {{"subword.joint=false", "model.embeddings=separate", "subword.source_model=a"},
       "key subword.target_model: found no file"},
      {{"subword.byte_fallback=true", "subword.vocabulary=260"},
       "key subword.vocabulary: found 260 with byte_fallback = true; needed more than 260"},
      {{"subword.source_dropout=0.1"},
       "key subword.source_dropout: found 0.1 with subword.type = \"unigram\"; needed 0, or type = "
       "\"bpe\""},
      {{"subword.joint=false", "model.embeddings=separate", "subword.target_dropout=0.5"},
       "key subword.target_dropout: found 0.5 with subword.type = \"unigram\""},
      {{"schedule.kind=linear", "schedule.warmup=50", "schedule.horizon=50"},
       "key schedule.horizon: found 50 with schedule.warmup = 50"},
      {{"schedule.warmup=0"}, "key schedule.warmup: found 0 with schedule.kind = \"inverse_sqrt\""},
      {{"train.max_steps=0"}, "key train.max_steps: found no stop; needed train.max_steps, "},
      {{"validation.every=0", "validation.patience=2"},
       "key validation.patience: found 2 with validation.every = 0"},
      {{"validation.bleu=false"},
       "key validation.best_by: found \"bleu\" with validation.bleu = false"},
      {{"data.embedded_valid=0"}, "key data.embedded_valid: found 0 with validation.every = 500"},
      {{"train.precision=bf16", "model.feed_forward=100"},
       "key train.precision: found \"bf16\" and a layer of width 100"},
      {{"train.precision=bf16", "model.encoder_kv_heads=1", "model.head_width=16",
        "model.encoder_heads=8"},
       "key train.precision: found \"bf16\" and a layer of width 16"},
      {{"train.average_last=4"}, "key train.average_last: found 4 with checkpoint.keep = 3"},
      {{"translate.max_length_factor=0", "translate.max_length_extra=0"},
       "key translate.max_length_factor: found 0 with max_length_extra = 0"},
  };
  for (const auto& c : cases) {
    EXPECT_TRUE(contains(with(c.overrides), c.message))
        << c.message << "\ngot: " << with(c.overrides);
  }
}

TEST(Relations, FilesAreNeededByName) {
  EXPECT_EQ(line_count(refusal("", {"train.max_steps=1"})), 5U);
  EXPECT_TRUE(contains(refusal("", {"train.max_steps=1"}),
                       "run.toml: key data.train_source: found no file"));
  const std::vector<std::string> files = {"train.max_steps=1", "data.train_source=a",
                                          "data.train_target=b"};
  EXPECT_EQ(refusal("[validation]\nevery = 0", files), "");
  EXPECT_TRUE(contains(refusal("[validation]\nevery = 0\n[data]\nvalid_source = 'c'", files),
                       "key data.valid_target: found no file; needed one for each side"));
  EXPECT_EQ(refusal("[data]\nvalid_source = 'c'\nvalid_target = 'd'", files), "");
}

TEST(Relations, PointAtTheLineThatSetAKey) {
  EXPECT_TRUE(contains(refusal("[model]\n\nencoder_heads = 3\n"), "run.toml:3: key model.width"));
  EXPECT_TRUE(contains(refusal("[model]\nwidth = 127\n"), "run.toml:2: key model.width"));
}

}  // namespace
}  // namespace headwise::config
