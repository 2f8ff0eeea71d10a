// The C++ functions that look at a call: statistics of the weights, and explain.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "csrc/ops/attention.h"
#include "tests/cpp/ops/formula.h"

namespace headwise::testing {
namespace {

int64_t column(const std::string& name) {
  const std::vector<std::string> names = statistics_names();
  const auto found = std::find(names.begin(), names.end(), name);
  EXPECT_NE(found, names.end()) << name;
  return found - names.begin();
}

TEST(Statistics, AgreeWithTheFormulaPackedAndPadded) {
  at::manual_seed(8);
  const at::Tensor q = randn({2, 4, 9, 8}), k = randn({2, 2, 9, 8}), v = randn({2, 2, 9, 5});
  AttentionOptions options;
  options.causal = true;
  options.dropout = 0.5;
  options.seed = at::scalar_tensor(3, at::kLong);
  const at::Tensor lse = attention(q, k, v, options).lse;
  const at::Tensor got = attention_statistics(q, k, v, lse, options);
  const at::Tensor hidden = future(9, 9);
  const at::Tensor weights = formula(q, k, v, hidden).weights;
  const at::Tensor norms = v.norm(2, -1).repeat_interleave(2, 1).unsqueeze(-2);
  const at::Tensor shares = weights * norms / (weights * norms).sum(-1, true);
  const auto expect = [&](const std::string& name, const at::Tensor& want) {
    EXPECT_TRUE(at::allclose(got.select(-1, column(name)), want)) << name;
  };
  expect("rows", at::full({2, 4}, 9.0, at::kDouble));
  expect("entropy", -at::xlogy(weights, weights).sum({-2, -1}));
  expect("mass[-1]", weights.diagonal(-1, -2, -1).sum(-1));
  expect("norm_mass[0]", shares.diagonal(0, -2, -1).sum(-1));
  expect("norm_top_column", shares.sum(-2).amax(-1));
  expect("norm_first", shares.select(-1, 0).sum(-1));

  const auto pack = [](const at::Tensor& x) { return x.transpose(1, 2).flatten(0, 1); };
  const at::Tensor starts = at::tensor(std::vector<int64_t>{0, 9, 18});
  EXPECT_TRUE(at::equal(got, attention_statistics_packed(pack(q), pack(k), pack(v), pack(lse),
                                                         starts, starts, 9, 9, options)));
}

TEST(Explain, NamesKernelAndMasks) {
  const at::Tensor q = randn({2, 4, 9, 8}), k = randn({2, 2, 9, 8});
  AttentionOptions options;
  options.window = {{3, -1}};
  const std::string padded = explain(q, k, k, options);
  for (const char* words : {"forward: kernel cpu/tiles", "backward: kernel cpu/tiles",
                            "window (3, unbounded)", "query heads 4, key/value heads 2"}) {
    EXPECT_NE(padded.find(words), std::string::npos) << words << " in\n" << padded;
  }
  const at::Tensor starts = at::tensor(std::vector<int64_t>{0, 4, 9});
  const std::string packed = explain_packed(q[0].transpose(0, 1), k[0].transpose(0, 1),
                                            k[0].transpose(0, 1), starts, starts, 5, 5);
  EXPECT_NE(packed.find("packed, float64"), std::string::npos) << packed;
}

}  // namespace
}  // namespace headwise::testing
