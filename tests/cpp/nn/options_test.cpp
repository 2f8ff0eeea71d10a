// Impossible options and inputs end with a message that names the numbers.
#include <cmath>

#include "tests/cpp/nn/support.h"

namespace headwise::nn::test {
namespace {

void expect_refused(const MultiHeadAttentionOptions& options,
                    const std::vector<std::string>& words) {
  const std::string message = error_of([&] { MultiHeadAttention module(options); });
  ASSERT_NE(message, "") << "accepted";
  expect_mentions(message, words);
}

TEST(Options, WidthThatHeadsDoNotDivide) {
  expect_refused(sizes(10, 4), {"embed_dim 10", "num_heads 4"});
  MultiHeadAttention accepted(sizes(10, 4, 0, 3));  // an independent head width is legal
  EXPECT_EQ(accepted->q_proj->weight.sizes(), at::IntArrayRef({12, 10}));
}

TEST(Options, KeyValueHeadsThatDoNotDivide) {
  expect_refused(sizes(12, 3, 2), {"num_heads 3", "num_kv_heads 2"});
  expect_refused(sizes(33, 33, 2), {"num_heads 33", "num_kv_heads 2"});
  expect_refused(sizes(12, 2, 4), {"num_heads 2", "num_kv_heads 4"});
  expect_refused(sizes(12, 4, -1), {"num_heads 4", "num_kv_heads -1"});
}

TEST(Options, SizesBelowOne) {
  expect_refused(sizes(0, 1), {"embed_dim", "0"});
  expect_refused(sizes(-8, 1), {"embed_dim", "-8"});
  expect_refused(sizes(8, 0), {"num_heads", "0"});
  expect_refused(sizes(8, 2, 0, -4), {"head_dim", "-4"});
  expect_refused(sizes(514, 2), {"head_dim", "257"});
  MultiHeadAttentionOptions options = sizes(8, 2);
  options.kdim = -3;
  expect_refused(options, {"kdim -3", "vdim 8"});
}

TEST(Options, OutputWithoutProjectionOfAnotherWidth) {
  MultiHeadAttentionOptions options = sizes(12, 3, 0, 5);
  options.out_proj = false;
  expect_refused(options, {"num_heads 3", "head_dim 5", "embed_dim 12"});
}

TEST(Options, DropoutOutsideItsRange) {
  for (const double dropout : {-0.1, 1.0, 1.5, double(NAN)}) {
    MultiHeadAttentionOptions options = sizes(12, 3);
    options.dropout = dropout;
    expect_refused(options, {"dropout", "[0, 1)"});
  }
}

TEST(Options, RotaryPositionsOfAnOddHeadWidth) {
  MultiHeadAttentionOptions options = sizes(9, 3);
  options.rotary = true;
  expect_refused(options, {"head_dim 3"});
}

TEST(Options, DefaultsAreFilledIn) {
  const MultiHeadAttention module(sizes(12, 3));
  EXPECT_EQ(module->options.num_kv_heads, 3);
  EXPECT_EQ(module->options.head_dim, 4);
  EXPECT_EQ(module->options.kdim, 12);
  EXPECT_EQ(module->options.vdim, 12);
}

TEST(Options, ParametersAreNamedAndShapedAsDocumented) {
  MultiHeadAttention module(sizes(512, 8));
  int64_t count = 0;
  for (const at::Tensor& parameter : module->parameters()) count += parameter.numel();
  EXPECT_EQ(count, 1050624);  // 4 d^2 + 4 d
  const auto parameters = module->named_parameters();
  const double bound = std::sqrt(6.0 / (512 + 512));
  for (const char* name : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
    const at::Tensor weight = parameters[std::string(name) + ".weight"];
    EXPECT_EQ(weight.sizes(), at::IntArrayRef({512, 512}));
    EXPECT_LE(weight.abs().max().item<double>(), bound);
    EXPECT_NEAR(weight.std().item<double>(), bound / std::sqrt(3.0), 0.01 * bound);
    EXPECT_EQ(parameters[std::string(name) + ".bias"].abs().max().item<double>(), 0);
  }
}

TEST(Options, CloneIsIndependent) {
  MultiHeadAttention module(sizes(8, 2, 1));
  auto copy = std::dynamic_pointer_cast<MultiHeadAttentionImpl>(module->clone());
  EXPECT_TRUE(at::equal(copy->k_proj->weight, module->k_proj->weight));
  const at::NoGradGuard no_grad;
  copy->k_proj->weight.add_(1);
  EXPECT_FALSE(at::equal(copy->k_proj->weight, module->k_proj->weight));
}

TEST(Inputs, OfAnotherShape) {
  MultiHeadAttention module(sizes(8, 2));
  const at::Tensor good = at::randn({2, 3, 8}), narrow = at::randn({2, 3, 6});
  expect_mentions(error_of([&] { module->forward(narrow, good, good); }),
                  {"query", "8", "[2, 3, 6]"});
  expect_mentions(error_of([&] { module->forward(good, narrow, good); }), {"key", "[2, 3, 6]"});
  expect_mentions(error_of([&] { module->forward(good, good, narrow); }), {"value", "[2, 3, 6]"});
  expect_mentions(error_of([&] { module->forward(good[0], good, good); }), {"query", "[3, 8]"});
  EXPECT_NE(error_of([&] { module->forward(good, good, at::randn({2, 4, 8})); }), "");
  EXPECT_NE(error_of([&] { module->forward(good, at::randn({3, 3, 8}), good); }), "");
}

TEST(Inputs, RotaryNeedsSelfAttention) {
  MultiHeadAttentionOptions options = sizes(8, 2);
  options.rotary = true;
  MultiHeadAttention module(options);
  const at::Tensor query = at::randn({2, 3, 8}), key = at::randn({2, 5, 8});
  expect_mentions(error_of([&] { module->forward(query, key, key); }),
                  {"3 queries", "5 keys", "self-attention"});
}

}  // namespace
}  // namespace headwise::nn::test
