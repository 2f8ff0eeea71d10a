// Interventions on single heads act alike on the padded, the packed and the cached path.
#include "tests/cpp/nn/support.h"

namespace headwise::nn::test {
namespace {

constexpr int64_t kLength = 7;

/// Causal self-attention of x (2, 7, 12) on each path, all as (2, 7, E).
std::vector<at::Tensor> on_every_path(MultiHeadAttention module, const at::Tensor& x) {
  const at::NoGradGuard no_grad;
  AttentionMasks masks;
  masks.causal = true;
  const at::Tensor padded = module->forward(x, x, x, masks).output;
  const at::Tensor rows = x.flatten(0, 1), starts = starts_of({kLength, kLength});
  const at::Tensor packed = module->forward_packed(
      rows, rows, rows, {starts, starts, kLength, kLength}, {.causal = true});
  KeyValueCache cache(2, module->options.num_kv_heads, kLength, module->options.head_dim,
                      x.options());
  const at::Tensor first = module->forward_step(x.slice(1, 0, 4), cache);
  const at::Tensor second = module->forward_step(x.slice(1, 4), cache);
  return {padded, packed.view_as(padded), at::cat({first, second}, 1)};
}

class Intervention : public ::testing::Test {
 protected:
  MultiHeadAttention module = make_module(sizes(12, 4, 2));
  at::Tensor x = at::randn({2, kLength, 12}, at::kDouble);
  Reference plain = reference(module, x, x, x, causal_hidden(kLength));

  void expect_on_every_path(const at::Tensor& heads) {
    const at::Tensor want = project(heads.flatten(2), module->out_proj);
    for (const at::Tensor& got : on_every_path(module, x)) expect_close(got, want);
  }
};

TEST_F(Intervention, NoneLeavesEverythingAsItIs) {
  expect_on_every_path(plain.heads);
  module->intervention = HeadIntervention{};
  expect_on_every_path(plain.heads);
}

TEST_F(Intervention, FactorZeroMakesOneHeadUniform) {
  module->intervention = HeadIntervention{};
  module->intervention->query_factor = at::tensor({1.0, 0.0, 1.0, 1.0}, at::kDouble);
  AttentionMasks masks;
  masks.causal = true;
  const at::Tensor weights = module->forward(x, x, x, masks, true).weights;
  const at::Tensor uniform = causal_hidden(kLength).logical_not().to(at::kDouble) /
                             at::arange(1, kLength + 1, at::kDouble).view({1, 1, kLength, 1});
  expect_close(weights.select(1, 1), uniform.select(1, 0).expand({2, kLength, kLength}));
  expect_close(weights.select(1, 2), plain.weights.select(1, 2));

  at::Tensor heads = plain.heads.clone();
  const at::Tensor values = project(x, module->v_proj).view({2, kLength, 2, 3}).select(2, 0);
  heads.select(2, 1).copy_(at::matmul(uniform.view({1, kLength, kLength}), values));
  expect_on_every_path(heads);
}

TEST_F(Intervention, GateZeroSilencesAHead) {
  module->intervention = HeadIntervention{};
  module->intervention->gate = at::tensor({0.0, 1.0, 1.0, 0.5}, at::kDouble);
  expect_on_every_path(plain.heads * module->intervention->gate->view({4, 1}));
}

TEST_F(Intervention, ReplacementTakesThePlaceOfGatedHeads) {
  module->intervention = HeadIntervention{};
  module->intervention->gate = at::tensor({1.0, 0.0, 1.0, 1.0}, at::kDouble);
  module->intervention->replacement = at::randn({4, 3}, at::kDouble);
  at::Tensor heads = plain.heads.clone();
  heads.select(2, 1).copy_((*module->intervention->replacement)[1].expand({2, kLength, 3}));
  expect_on_every_path(heads);
}

TEST_F(Intervention, ActsOnCrossAttentionSteps) {
  const at::NoGradGuard no_grad;
  module->intervention = HeadIntervention{};
  module->intervention->gate = at::tensor({0.0, 1.0, 1.0, 0.5}, at::kDouble);
  module->intervention->query_factor = at::tensor({1.0, 0.0, 2.0, 1.0}, at::kDouble);
  const at::Tensor rows = x.flatten(0, 1), starts = starts_of({kLength, kLength});
  const CrossCache cache = module->cross_cache(rows, rows, starts, kLength);
  expect_close(module->forward_cross_step(x, cache, at::tensor({0, 1}, at::kInt)),
               module->forward(x, x, x).output);
}

TEST_F(Intervention, GateHasAGradient) {
  module->intervention = HeadIntervention{};
  const at::Tensor gate = at::ones({4}, at::kDouble).set_requires_grad(true);
  module->intervention->gate = gate;
  const at::Tensor rows = x.flatten(0, 1), starts = starts_of({kLength, kLength});
  module->forward_packed(rows, rows, rows, {starts, starts, kLength, kLength}).sum().backward();
  EXPECT_GT(gate.grad().abs().min().item<double>(), 0);
}

TEST_F(Intervention, OfAnotherShapeIsRefused) {
  const auto run = [&] { module->forward(x, x, x); };
  module->intervention = HeadIntervention{};
  module->intervention->gate = at::ones({3});
  expect_mentions(error_of(run), {"gate", "4 heads", "[3]"});
  module->intervention->gate = at::ones({4});
  module->intervention->replacement = at::ones({4, 5});
  expect_mentions(error_of(run), {"replacement", "(4, 3)", "[4, 5]"});
  module->intervention->gate.reset();
  expect_mentions(error_of(run), {"replacement", "gate"});
  module->intervention = HeadIntervention{};
  module->intervention->query_factor = at::ones({2});
  expect_mentions(error_of(run), {"query_factor", "4 heads", "[2]"});
}

}  // namespace
}  // namespace headwise::nn::test
