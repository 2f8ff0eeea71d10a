// Bias, activation and dropout against plain loops, on every instruction set of the machine. Every
// number is one addition and one multiplication, so that results are compared exactly.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "csrc/kernels/activation_dropout/params.h"
#include "csrc/kernels/cpu/instruction_set.h"
#include "tests/kernels/error_rule.h"
#include "tests/kernels/row_case.h"
#include "tests/kernels/run_plan.h"

namespace headwise::testing {
namespace {

using kernels::RowActivation;

struct ActivationCase {
  int64_t rows, width;
  RowActivation activation;
  double dropout;
  bool has_bias;
};

template <typename C>
struct ActivationRun {
  const ActivationCase c;
  const int64_t stride;
  std::vector<C> x, bias, y, y_gradient, x_gradient, bias_gradient;

  explicit ActivationRun(const ActivationCase& given)
      : c(given),
        stride((c.width + kMultiple - 1) / kMultiple * kMultiple),
        y(c.rows * stride, C(-7)),
        x_gradient(c.rows * stride, C(-7)),
        bias_gradient(c.width, C(-7)) {
    Random random{c.rows, c.width};
    x = random_rows<C>(random, c.rows, c.width, stride);
    bias = random_rows<C>(random, 1, c.width, stride);
    y_gradient = random_rows<C>(random, c.rows, c.width, stride);
  }

  void run(Order order = Order::kForwards, Rubbish rubbish = Rubbish::kNaN) {
    kernels::ActivationDropoutParams<C> f;
    f.rows = c.rows;
    f.width = c.width;
    f.stride = stride;
    f.activation = c.activation;
    f.x = x.data();
    f.bias = c.has_bias ? bias.data() : nullptr;
    f.dropout = some_dropout(c.dropout);
    f.y = y.data();
    run_plan(f, order, rubbish);
    kernels::ActivationDropoutGradientParams<C> b;
    b.rows = c.rows;
    b.width = c.width;
    b.stride = stride;
    b.activation = c.activation;
    b.y = y.data();
    b.y_gradient = y_gradient.data();
    b.dropout = f.dropout;
    b.x_gradient = x_gradient.data();
    b.bias_gradient = c.has_bias ? bias_gradient.data() : nullptr;
    run_plan(b, order, rubbish);
  }

  static constexpr int64_t kMultiple = kernels::ActivationDropoutParams<C>::kWidthMultiple;
};

template <typename C>
void check_case(const ActivationCase& c) {
  SCOPED_TRACE(::testing::Message()
               << c.rows << " x " << c.width << ", relu " << (c.activation == RowActivation::kRelu)
               << ", dropout " << c.dropout << ", bias " << c.has_bias);
  ActivationRun<C> run(c);
  run.run(Order::kShuffled);
  std::vector<long double> bias_gradient(c.width);
  std::vector<C> plain_bias_gradient(c.width);
  for (int64_t n = 0; n < c.rows; ++n) {
    for (int64_t i = 0; i < c.width; ++i) {
      const int64_t at = n * run.stride + i;
      const C factor = C(kept_factor(some_dropout(c.dropout), n, i));
      const C sum = c.has_bias ? run.x[at] + run.bias[i] : run.x[at];
      const bool passes = c.activation == RowActivation::kNone || sum > 0;
      const C gradient = passes ? run.y_gradient[at] * factor : C{0};
      ASSERT_EQ(run.y[at], passes ? sum * factor : C{0}) << n << ", " << i;
      ASSERT_EQ(run.x_gradient[at], gradient) << n << ", " << i;
      bias_gradient[i] += gradient;
      plain_bias_gradient[i] += gradient;
    }
  }
  if (!c.has_bias) return;
  expect_as_exact(run.bias_gradient, bias_gradient, plain_bias_gradient, "gradient of bias",
                  kEpsilon<C>);
}

class ActivationDropout : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::cpu::use_instruction_set(GetParam()); }
  void TearDown() override { kernels::cpu::use_instruction_set(""); }
};

TEST_P(ActivationDropout, EqualsPlainLoops) {
  for (const auto& [rows, width] : std::vector<std::array<int64_t, 2>>{
           {1, 1}, {2, 15}, {32, 16}, {33, 17}, {65, 64}, {7, 65}, {40, 300}}) {
    for (const auto activation : {RowActivation::kNone, RowActivation::kRelu}) {
      for (const double dropout : {0.0, 0.25}) {
        for (const bool has_bias : {false, true}) {
          check_case<float>({rows, width, activation, dropout, has_bias});
          check_case<double>({rows, width, activation, dropout, has_bias});
        }
      }
    }
  }
}

TEST_P(ActivationDropout, OrderOfItemsChangesNoBit) {
  const ActivationCase c{150, 48, RowActivation::kNone, 0.2, true};
  ActivationRun<float> forwards(c), shuffled(c);
  forwards.run(Order::kForwards, Rubbish::kZero);
  shuffled.run(Order::kShuffled, Rubbish::kNumbers);
  EXPECT_EQ(forwards.y, shuffled.y);
  EXPECT_EQ(forwards.bias_gradient, shuffled.bias_gradient);
}

TEST_P(ActivationDropout, ReluPassesNaNOn) {
  ActivationRun<float> run({3, 16, RowActivation::kRelu, 0.0, true});
  run.x[5] = std::numeric_limits<float>::quiet_NaN();
  run.run();
  EXPECT_TRUE(std::isnan(run.y[5]));
  EXPECT_EQ(run.x_gradient[5], run.y_gradient[5]);
}

INSTANTIATE_TEST_SUITE_P(Kernels, ActivationDropout,
                         ::testing::ValuesIn(kernels::cpu::instruction_sets()));

}  // namespace
}  // namespace headwise::testing
