// The fused loss against float64 loops, on every instruction set of the machine.
#include "csrc/kernels/linear_cross_entropy/params.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "csrc/kernels/cpu/instruction_set.h"
#include "tests/kernels/error_rule.h"
#include "tests/kernels/plain_loss.h"
#include "tests/kernels/run_plan.h"

namespace headwise::testing {
namespace {

template <typename C>
void check_case(const LossCase& c) {
  SCOPED_TRACE(::testing::Message()
               << c.rows << " x " << c.width << " x " << c.classes << ", bias " << c.has_bias
               << ", weights " << c.has_weights << ", smoothing " << c.smoothing << ", spread "
               << c.spread << ", consistency " << c.consistency);
  LossRun<C> run(c);
  run_plan(run.params(c), Order::kShuffled);
  const PlainLoss<long double, C> exact(c, run);
  const PlainLoss<C, C> plain(c, run);
  const double epsilon = kEpsilon<C>;
  expect_as_exact(run.loss, exact.loss, plain.loss, "loss", epsilon);
  expect_as_exact(run.nll, exact.nll, plain.nll, "nll", epsilon);
  expect_as_exact(run.hidden_gradient, exact.hidden_gradient, plain.hidden_gradient,
                  "gradient of hidden", epsilon);
  expect_as_exact(run.weight_gradient, exact.weight_gradient, plain.weight_gradient,
                  "gradient of weight", epsilon);
  if (c.has_bias) {
    expect_as_exact(run.bias_gradient, exact.bias_gradient, plain.bias_gradient, "gradient of bias",
                    epsilon);
  }
}

/// How far gradients may be off where exponentials and hidden rows times their factors are rounded
/// to bfloat16 (hidden and weights are already): half a unit in the last place of each, of the sum
/// of all summands' sizes.
struct RoundedBounds {
  std::vector<double> hidden_gradient, weight_gradient, bias_gradient;

  RoundedBounds(const LossCase& c, const LossRun<float>& run)
      : hidden_gradient(c.rows * c.width),
        weight_gradient(c.classes * c.width),
        bias_gradient(c.classes) {
    constexpr double kUnit = 0x1p-7;  // two roundings to eight significant bits
    for (int64_t n = 0; n < c.rows; ++n) {
      if (run.labels[n] < 0) continue;
      const double factor = c.has_weights ? run.row_weight[n] : 1;
      const float* h = run.hidden.data() + n * c.width;
      std::vector<double> p(c.classes);
      double total = 0;
      for (int64_t v = 0; v < c.classes; ++v) {
        for (int64_t i = 0; i < c.width; ++i) {
          p[v] += double{h[i]} * run.weight[v * c.width + i];
        }
        if (c.has_bias) p[v] += run.bias[v];
        total += p[v] = std::exp(p[v]);
      }
      for (int64_t v = 0; v < c.classes; ++v) {
        const double size = factor * p[v] / total * kUnit;
        bias_gradient[v] += size / 2;
        for (int64_t i = 0; i < c.width; ++i) {
          const int64_t at = v * c.width + i;
          hidden_gradient[n * c.width + i] += size / 2 * std::abs(run.weight[at]);
          weight_gradient[at] += size * std::abs(h[i]);
        }
      }
    }
  }
};

void expect_within(const std::vector<float>& ours, const std::vector<long double>& exact,
                   const std::vector<double>& bounds, const char* what) {
  double used = 0;
  for (size_t i = 0; i < ours.size(); ++i) {
    const double error = std::abs(static_cast<double>(ours[i] - exact[i]));
    ASSERT_LE(error, bounds[i] * 1.01 + 2e-6) << what << ", number " << i;
    used = std::max(used, error);
  }
  // Nothing is rounded where the factors stay floats: this is another computation.
  EXPECT_GT(used, 1e-5) << what;
}

void check_bfloat16(const LossCase& c, bool instruction) {
  SCOPED_TRACE(::testing::Message() << c.rows << " x " << c.width << " x " << c.classes
                                    << ", instruction " << instruction);
  LossRun<float> run(c);
  for (auto* numbers : {&run.hidden, &run.weight}) {
    for (float& x : *numbers) {
      x = kernels::to_compute(kernels::from_compute<kernels::BFloat16>(x));
    }
  }
  auto params = run.params(c);
  params.bfloat16 = true;
  params.instruction = instruction;
  run_plan(params, Order::kShuffled);
  const PlainLoss<long double, float> exact(c, run);
  const PlainLoss<float, float> plain(c, run);
  expect_as_exact(run.loss, exact.loss, plain.loss, "loss", kEpsilon<float>);
  expect_as_exact(run.nll, exact.nll, plain.nll, "nll", kEpsilon<float>);
  const RoundedBounds bounds(c, run);
  expect_within(run.hidden_gradient, exact.hidden_gradient, bounds.hidden_gradient, "hidden");
  expect_within(run.weight_gradient, exact.weight_gradient, bounds.weight_gradient, "weight");
  if (!c.has_bias) return;
  for (int64_t v = 0; v < c.classes; ++v) {
    const double sum = static_cast<double>(exact.bias_gradient[v]);
    EXPECT_NEAR(run.bias_gradient[v], sum, bounds.bias_gradient[v] * 1.01 + 2e-6) << v;
  }
}

class LinearCrossEntropy : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::cpu::use_instruction_set(GetParam()); }
  void TearDown() override { kernels::cpu::use_instruction_set(""); }
};

TEST_P(LinearCrossEntropy, EqualsPlainLoops) {
  // Around the rows of an item (36), the panel (64) and the tile (512) of classes, and one of each.
  for (const auto& [rows, width, classes] : std::vector<std::array<int64_t, 3>>{{1, 16, 1},
                                                                                {1, 16, 2},
                                                                                {35, 16, 63},
                                                                                {36, 32, 64},
                                                                                {37, 48, 65},
                                                                                {40, 16, 511},
                                                                                {73, 32, 512},
                                                                                {5, 16, 513},
                                                                                {80, 128, 1030},
                                                                                {600, 16, 130}}) {
    for (const bool extras : {false, true}) {
      check_case<float>({rows, width, classes, extras, extras, extras ? 0.1 : 0.0, 2});
      check_case<double>({rows, width, classes, extras, !extras, extras ? 0.0 : 0.3, 2});
    }
  }
}

TEST_P(LinearCrossEntropy, ProductsOfBFloat16) {
  for (const auto& [rows, width, classes] : std::vector<std::array<int64_t, 3>>{
           {36, 32, 64}, {37, 64, 65}, {73, 32, 513}, {145, 128, 1030}, {601, 32, 131}}) {
    for (const bool extras : {false, true}) {
      const LossCase c{rows, width, classes, extras, extras, extras ? 0.1 : 0.0, 2};
      check_bfloat16(c, false);
      if (kernels::cpu::multiplies_pairs()) check_bfloat16(c, true);
    }
  }
}

TEST_P(LinearCrossEntropy, RandomShapes) {
  Random random{20261130};
  for (int n = 0; n < 60; ++n) {
    const LossCase c{1 + random.below(120),
                     16 * (1 + random.below(6)),
                     1 + random.below(700),
                     random.chance(50),
                     random.chance(50),
                     random.chance(50) ? random.uniform() : 0.0,
                     random.chance(20) ? 60.0 : 3.0};
    check_case<float>(c);
    if (n % 4 == 0) check_case<double>(c);
  }
}

TEST_P(LinearCrossEntropy, PairsOfRowsAreHeldTogether) {
  Random random{20261201};
  for (int n = 0; n < 30; ++n) {
    const LossCase c{2 * (1 + random.below(60)),
                     16 * (1 + random.below(6)),
                     1 + random.below(1200),
                     random.chance(50),
                     random.chance(50),
                     random.chance(50) ? 0.1 : 0.0,
                     random.chance(20) ? 30.0 : 2.0,
                     0.5 + 4 * random.uniform()};
    check_case<float>(c);
    if (n % 3 == 0) check_case<double>(c);
  }
  check_case<float>({700, 16, 70, true, true, 0.1, 2, 3});  // two chunks
}

TEST_P(LinearCrossEntropy, SeveralChunksOfRowsAddUp) {
  check_case<float>({1300, 16, 70, true, true, 0.1, 2});  // chunks of 576
}

TEST_P(LinearCrossEntropy, ScoresThatGrowFromTileToTile) {
  LossCase c{3, 16, 2000, true, false, 0.1, 1};
  LossRun<float> run(c);
  for (int64_t v = 0; v < c.classes; ++v) run.bias[v] = static_cast<float>(v) * 0.1f;
  run.labels = {0, 1999, 700};
  run_plan(run.params(c));
  const PlainLoss<long double, float> exact(c, run);
  for (int64_t n = 0; n < c.rows; ++n) {
    EXPECT_NEAR(run.loss[n], exact.loss[n], 1e-6 * exact.loss[n]);
  }
  for (int64_t i = 0; i < c.rows * c.width; ++i) {
    EXPECT_NEAR(run.hidden_gradient[i], static_cast<double>(exact.hidden_gradient[i]), 2e-6);
  }
}

TEST_P(LinearCrossEntropy, OrderOfItemsAndGradientsChangeNoBit) {
  for (const auto& [consistency, bfloat16] :
       {std::pair{0.0, false}, {0.0, true}, {2.0, false}, {2.0, true}}) {
    const LossCase c{150, 32, 1100, true, true, 0.1, 3, consistency};
    LossRun<float> forwards(c), shuffled(c), without(c);
    const auto params = [&, pairs = bfloat16](LossRun<float>& run, bool differentiate = true) {
      auto p = run.params(c, differentiate);
      p.bfloat16 = pairs;
      p.instruction = pairs && kernels::cpu::multiplies_pairs();
      return p;
    };
    run_plan(params(forwards), Order::kForwards, Rubbish::kZero);
    run_plan(params(shuffled), Order::kShuffled, Rubbish::kNumbers);
    run_plan(params(without, /*differentiate=*/false));
    EXPECT_EQ(forwards.loss, shuffled.loss);
    EXPECT_EQ(forwards.hidden_gradient, shuffled.hidden_gradient);
    EXPECT_EQ(forwards.weight_gradient, shuffled.weight_gradient);
    EXPECT_EQ(forwards.bias_gradient, shuffled.bias_gradient);
    EXPECT_EQ(forwards.loss, without.loss);
    EXPECT_EQ(forwards.nll, without.nll);
  }
}

TEST_P(LinearCrossEntropy, ARowLeftOutGivesNothingEvenIfItIsNaN) {
  for (const int64_t row : {7, 8}) {
    for (const int kind : {0, 1, 2, 3}) {
      const bool bfloat16 = kind % 2 == 1;
      const LossCase c{40, 32, 100, false, false, 0.1, 2, kind < 2 ? 0.0 : 2.0};
      LossRun<float> run(c), clean(c);
      for (auto* r : {&run, &clean}) {
        r->labels[row] = -1;
        std::fill_n(r->hidden.begin() + row * c.width, c.width, 0.0f);
      }
      run.hidden[row * c.width] = std::numeric_limits<float>::quiet_NaN();
      for (auto* r : {&run, &clean}) {
        auto params = r->params(c);
        params.bfloat16 = bfloat16;
        params.instruction = bfloat16 && kernels::cpu::multiplies_pairs();
        run_plan(params);
      }
      EXPECT_EQ(run.loss, clean.loss);
      EXPECT_EQ(run.hidden_gradient, clean.hidden_gradient);
      EXPECT_EQ(run.weight_gradient, clean.weight_gradient);
      EXPECT_EQ(run.loss[row], 0);
    }
  }
}

TEST_P(LinearCrossEntropy, NaNReachesItsOwnRowsLoss) {
  const LossCase c{40, 16, 100, false, false, 0.1, 2};
  LossRun<float> run(c);
  run.labels[7] = 3;
  run.hidden[7 * c.width] = std::numeric_limits<float>::quiet_NaN();
  run_plan(run.params(c));
  EXPECT_TRUE(std::isnan(run.loss[7]));
  EXPECT_FALSE(std::isnan(run.loss[8]));
}

INSTANTIATE_TEST_SUITE_P(Kernels, LinearCrossEntropy,
                         ::testing::ValuesIn(kernels::cpu::instruction_sets()));

}  // namespace
}  // namespace headwise::testing
