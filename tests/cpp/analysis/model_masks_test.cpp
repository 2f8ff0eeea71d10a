// Our own modules and models pass the mask checks in every form; a spoilt one does not.
#include "src/analysis/model_masks.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "tests/cpp/model/support.h"

namespace headwise::analysis {
namespace {

using Names = std::vector<std::string>;

nn::MultiHeadAttentionOptions sizes(int64_t width, int64_t heads, int64_t kv_heads = 0) {
  nn::MultiHeadAttentionOptions options;
  options.embed_dim = width;
  options.num_heads = heads;
  options.num_kv_heads = kv_heads;
  return options;
}

/// Biases other than 0: a row that sees nothing must give the bias of W_O and nothing else.
nn::MultiHeadAttention random_module(const nn::MultiHeadAttentionOptions& options) {
  at::manual_seed(2);
  nn::MultiHeadAttention module(options);
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : module->parameters()) parameter.uniform_(-0.5, 0.5);
  return module;
}

/// Operations this small lose by sharing work, and lose much where other programs run.
struct OneThread : ::testing::Environment {
  void SetUp() override { at::set_num_threads(1); }
};
[[maybe_unused]] const auto* const environment =
    ::testing::AddGlobalTestEnvironment(new OneThread);  // gtest owns it

TEST(ModelMasks, EveryKindOfModulePasses) {
  std::vector<nn::MultiHeadAttentionOptions> kinds(5, sizes(16, 4));
  kinds[1].num_kv_heads = 2;
  kinds[1].head_dim = 6;
  kinds[2].out_proj = false;
  kinds[3].rotary = true;
  kinds[4].kdim = 5;
  kinds[4].vdim = 7;
  kinds[4].bias = false;
  for (const nn::MultiHeadAttentionOptions& kind : kinds) {
    const auto reports = check_module_masks("it", random_module(kind));
    EXPECT_EQ(failures(reports), Names());
    ASSERT_EQ(reports.size(), 2U);
    EXPECT_EQ(reports[0].form, "padded");
    EXPECT_EQ(reports[1].form, "packed");
  }
}

TEST(ModelMasks, LongSequencesPassToo) {
  EXPECT_EQ(failures(check_module_masks("it", random_module(sizes(16, 2, 1)),
                                        {.queries = 70, .keys = 90})),
            Names());
}

TEST(ModelMasks, EveryAttentionOfAModelIsTried) {
  for (const config::ModelConfig& config : model::testing::variations()) {
    model::Transformer model(config, 11, 11);
    model->eval();
    const std::vector<MaskReport> reports = check_model_masks(model);
    EXPECT_EQ(failures(reports), Names());
    std::set<std::string> names;
    for (const MaskReport& report : reports) names.insert(report.module);
    EXPECT_EQ(names, (std::set<std::string>{"encoder 0 self", "encoder 1 self", "decoder 0 self",
                                            "decoder 1 self", "decoder 0 cross", "decoder 1 cross",
                                            "the whole model"}));
  }
}

TEST(ModelMasks, ASpoiltModuleIsNamed) {
  model::Transformer model(model::testing::small_config(), 11, 11);
  model->eval();
  const at::NoGradGuard no_grad;
  model->decoder[1]->cross_attention->q_proj->weight.fill_(std::numeric_limits<float>::quiet_NaN());
  const Names lines = failures(check_model_masks(model));
  ASSERT_FALSE(lines.empty());
  for (const std::string& line : lines) {
    EXPECT_TRUE(line.starts_with("decoder 1 cross, ") || line.starts_with("the whole model, "))
        << line;
  }
  EXPECT_TRUE(lines.back().starts_with("the whole model, ")) << lines.back();
  EXPECT_NE(lines[0].find("row-sums"), std::string::npos) << lines[0];
}

}  // namespace
}  // namespace headwise::analysis
