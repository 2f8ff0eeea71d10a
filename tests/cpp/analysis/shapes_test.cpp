// The step-by-step table: its numbers follow from the sizes asked for, and a copy is seen.
#include "src/analysis/shapes.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "csrc/ops/attention.h"
#include "src/analysis/op_recorder.h"

namespace headwise::analysis {
namespace {

using Sizes = std::vector<int64_t>;

nn::MultiHeadAttention module_of(int64_t width, int64_t heads, int64_t kv_heads,
                                 int64_t head_width) {
  nn::MultiHeadAttentionOptions options;
  options.embed_dim = width;
  options.num_heads = heads;
  options.num_kv_heads = kv_heads;
  options.head_dim = head_width;
  return nn::MultiHeadAttention(options);
}

const ShapeStep& step(const std::vector<ShapeStep>& steps, const std::string& name) {
  const auto found = std::find_if(steps.begin(), steps.end(),
                                  [&](const ShapeStep& step) { return step.name == name; });
  if (found == steps.end()) throw std::runtime_error("there is no step " + name);
  return *found;
}

TEST(Shapes, CrossAttentionIsNotSquare) {
  const auto steps =
      attention_steps(module_of(12, 4, 2, 5), at::randn({3, 6, 12}), at::randn({3, 9, 12}));
  std::vector<std::string> names;
  for (const ShapeStep& each : steps) names.push_back(each.name);
  EXPECT_EQ(names, (std::vector<std::string>{"query",
                                             "key and value",
                                             "project q",
                                             "add the bias of q",
                                             "split heads of q",
                                             "heads of q first",
                                             "project k",
                                             "add the bias of k",
                                             "split heads of k",
                                             "heads of k first",
                                             "project v",
                                             "add the bias of v",
                                             "split heads of v",
                                             "heads of v first",
                                             "scores of q and k",
                                             "softmax of the scores",
                                             "weighted sum of v",
                                             "log-sum-exp of the scores",
                                             "merge heads: tokens first",
                                             "merge heads: join",
                                             "project the output",
                                             "add the bias of the output"}));
  EXPECT_EQ(step(steps, "project q").sizes, (Sizes{3, 6, 4 * 5}));
  EXPECT_EQ(step(steps, "project k").sizes, (Sizes{3, 9, 2 * 5}));
  EXPECT_EQ(step(steps, "heads of q first").sizes, (Sizes{3, 4, 6, 5}));
  EXPECT_EQ(step(steps, "heads of v first").sizes, (Sizes{3, 2, 9, 5}));
  EXPECT_EQ(step(steps, "scores of q and k").sizes, (Sizes{3, 4, 6, 9}));
  EXPECT_EQ(step(steps, "scores of q and k").bytes, 3 * 4 * 6 * 9 * 4);
  EXPECT_EQ(step(steps, "weighted sum of v").sizes, (Sizes{3, 4, 6, 5}));
  EXPECT_EQ(step(steps, "log-sum-exp of the scores").sizes, (Sizes{3, 4, 6}));
  EXPECT_EQ(step(steps, "project the output").sizes, (Sizes{3, 6, 12}));
}

TEST(Shapes, SplittingAndMergingStayInTheSameMemory) {
  const at::Tensor x = at::randn({2, 7, 12});
  const auto steps = attention_steps(module_of(12, 3, 3, 4), x, x);
  EXPECT_EQ(steps[0].name, "query, key and value");
  EXPECT_EQ(steps[0].memory, Memory::kInput);
  for (const ShapeStep& each : steps) EXPECT_FALSE(each.copied) << each.name;
  const std::pair<const char*, const char*> views[] = {
      {"add the bias of q", "project q"},
      {"split heads of q", "project q"},
      {"heads of q first", "project q"},
      {"heads of v first", "project v"},
      {"merge heads: tokens first", "weighted sum of v"},
      {"merge heads: join", "weighted sum of v"}};
  for (const auto& [name, maker] : views) {
    EXPECT_EQ(step(steps, name).memory, Memory::kView) << name;
    EXPECT_EQ(step(steps, name).shares_with, maker) << name;
    EXPECT_EQ(step(steps, name).allocated, 0) << name;
  }
  EXPECT_EQ(step(steps, "heads of q first").strides, (Sizes{7 * 12, 4, 12, 1}));
  EXPECT_FALSE(step(steps, "heads of q first").contiguous);
  EXPECT_EQ(step(steps, "weighted sum of v").strides, (Sizes{7 * 12, 4, 12, 1}));
  EXPECT_TRUE(step(steps, "merge heads: join").contiguous);
  EXPECT_EQ(step(steps, "project q").allocated, 2 * 7 * 12 * 4);
}

TEST(Shapes, TheScoresAreNeverStored) {
  // What the op takes beyond its two results: its tiles, the same for any length.
  const auto tiles = [](int64_t tokens) {
    const at::Tensor x = at::randn({1, tokens, 8});
    const auto steps = attention_steps(module_of(8, 4, 4, 2), x, x);
    const ShapeStep& scores = step(steps, "scores of q and k");
    EXPECT_EQ(scores.memory, Memory::kNever);
    EXPECT_EQ(scores.bytes, 4 * tokens * tokens * 4);
    return step(steps, "weighted sum of v").allocated - (tokens * 8 * 4 + 4 * tokens * 4);
  };
  EXPECT_EQ(tiles(1024), tiles(256));
  EXPECT_LT(tiles(256), 4 * 256 * 256 * 4 / 8);
}

TEST(Shapes, ACopyIsSeen) {
  auto module = module_of(12, 3, 3, 4);
  const at::Tensor x = at::randn({2, 7, 12});
  const auto careless = [&] {
    const auto split = [&](torch::nn::Linear& layer) {
      return layer->forward(x).unflatten(-1, {3, 4}).transpose(1, 2).contiguous();
    };
    const at::Tensor q = split(module->q_proj), k = split(module->k_proj),
                     v = split(module->v_proj);
    module->out_proj->forward(attention(q, k, v).output.transpose(1, 2).flatten(2));
  };
  const auto steps = steps_of(careless, module, x, x);
  for (const char* letter : {"q", "k", "v"}) {
    const ShapeStep& copy = step(steps, std::string("aten::contiguous of ") + letter);
    EXPECT_TRUE(copy.copied);
    EXPECT_EQ(copy.memory, Memory::kNew);
    EXPECT_EQ(copy.allocated, 2 * 7 * 12 * 4);
  }
}

TEST(OpRecorder, ListsOutermostOperationsAndStopsListening) {
  const at::Tensor x = at::randn({4, 5});
  const auto ops = record_ops([&] { at::matmul(x, at::ones({5, 3})); });
  ASSERT_EQ(ops.size(), 2U);
  EXPECT_EQ(ops[0].name, "aten::ones");
  EXPECT_EQ(ops[1].name, "aten::matmul");
  ASSERT_EQ(ops[1].inputs.size(), 2U);
  EXPECT_TRUE(ops[1].inputs[0].is_same(x));
  EXPECT_EQ(ops[1].outputs.at(0).sizes(), (Sizes{4, 3}));
  EXPECT_EQ(ops[1].allocated, 4 * 3 * 4);
  EXPECT_TRUE(record_ops([] {}).empty());
  x.add(1);  // nobody listens any more: a callback without its recorder would crash
}

}  // namespace
}  // namespace headwise::analysis
