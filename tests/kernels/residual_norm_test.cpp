// Residual connection, dropout and layer norm against long double loops, on every instruction set
// of the machine.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "csrc/kernels/cpu/instruction_set.h"
#include "csrc/kernels/residual_norm/params.h"
#include "tests/kernels/error_rule.h"
#include "tests/kernels/row_case.h"
#include "tests/kernels/run_plan.h"

namespace headwise::testing {
namespace {

struct NormCase {
  int64_t rows, width;
  double dropout;
  double offset;  // of all numbers of x: a mean far from 0
  bool sum_is_used;
};

/// Everything both passes read and write.
template <typename C>
struct NormRun {
  const NormCase c;
  const int64_t stride;
  std::vector<C> x, branch, weight, bias, sum_gradient, normed_gradient;
  std::vector<C> sum, normed, mean, inverse;
  std::vector<C> x_gradient, branch_gradient, weight_gradient, bias_gradient;

  explicit NormRun(const NormCase& given)
      : c(given),
        stride((c.width + kMultiple - 1) / kMultiple * kMultiple),
        mean(c.rows),
        inverse(c.rows),
        weight_gradient(c.width, C(-7)),
        bias_gradient(c.width, C(-7)) {
    Random random{c.rows, c.width};
    for (auto* rows : {&x, &branch, &sum_gradient, &normed_gradient}) {
      *rows = random_rows<C>(random, c.rows, c.width, stride);
    }
    for (int64_t n = 0; n < c.rows; ++n) {
      for (int64_t i = 0; i < c.width; ++i) x[n * stride + i] += C(c.offset);
    }
    weight = random_rows<C>(random, 1, c.width, stride);
    bias = random_rows<C>(random, 1, c.width, stride);
    for (auto* rows : {&sum, &normed, &x_gradient, &branch_gradient}) {
      rows->assign(c.rows * stride, C(-7));
    }
  }

  void run(Order order = Order::kForwards, Rubbish rubbish = Rubbish::kNaN) {
    kernels::ResidualNormParams<C> f;
    f.rows = c.rows;
    f.width = c.width;
    f.stride = stride;
    f.x = x.data();
    f.branch = branch.data();
    f.weight = weight.data();
    f.bias = bias.data();
    f.epsilon = kEpsilonOfNorm;
    f.dropout = some_dropout(c.dropout);
    f.sum = sum.data();
    f.normed = normed.data();
    f.mean = mean.data();
    f.inverse = inverse.data();
    run_plan(f, order, rubbish);
    kernels::ResidualNormGradientParams<C> b;
    b.rows = c.rows;
    b.width = c.width;
    b.stride = stride;
    b.sum = sum.data();
    b.mean = mean.data();
    b.inverse = inverse.data();
    b.weight = weight.data();
    b.sum_gradient = c.sum_is_used ? sum_gradient.data() : nullptr;
    b.normed_gradient = normed_gradient.data();
    b.dropout = f.dropout;
    b.x_gradient = x_gradient.data();
    b.branch_gradient = c.dropout > 0 ? branch_gradient.data() : nullptr;
    b.weight_gradient = weight_gradient.data();
    b.bias_gradient = bias_gradient.data();
    run_plan(b, order, rubbish);
  }

  static constexpr double kEpsilonOfNorm = 1e-5;
  static constexpr int64_t kMultiple = kernels::ResidualNormParams<C>::kWidthMultiple;
};

/// The plain formulas in `Sum`, on the inputs of a run.
template <typename Sum, typename C>
struct PlainNorm {
  std::vector<Sum> sum, normed, x_gradient, branch_gradient, weight_gradient, bias_gradient;

  explicit PlainNorm(const NormRun<C>& run)
      : weight_gradient(run.c.width), bias_gradient(run.c.width) {
    for (int64_t n = 0; n < run.c.rows; ++n) add_row(run, n);
  }

 private:
  void add_row(const NormRun<C>& run, int64_t n) {
    const int64_t width = run.c.width, at = n * run.stride;
    const kernels::Dropout dropout = some_dropout(run.c.dropout);
    std::vector<Sum> s(width), x(width), g(width);
    Sum mean = 0, variance = 0, mean_g = 0, mean_gx = 0;
    for (int64_t i = 0; i < width; ++i) {
      s[i] = Sum(run.x[at + i]) + Sum(run.branch[at + i]) * Sum(kept_factor(dropout, n, i));
      mean += s[i] / Sum(width);
    }
    for (int64_t i = 0; i < width; ++i) variance += (s[i] - mean) * (s[i] - mean) / Sum(width);
    const Sum inverse = 1 / std::sqrt(variance + Sum(NormRun<C>::kEpsilonOfNorm));
    for (int64_t i = 0; i < width; ++i) {
      x[i] = (s[i] - mean) * inverse;
      sum.push_back(s[i]);
      normed.push_back(x[i] * Sum(run.weight[i]) + Sum(run.bias[i]));
      const Sum given = run.normed_gradient[at + i];
      g[i] = given * Sum(run.weight[i]);
      weight_gradient[i] += given * x[i];
      bias_gradient[i] += given;
      mean_g += g[i] / Sum(width);
      mean_gx += g[i] * x[i] / Sum(width);
    }
    for (int64_t i = 0; i < width; ++i) {
      Sum d = inverse * (g[i] - mean_g - x[i] * mean_gx);
      if (run.c.sum_is_used) d += Sum(run.sum_gradient[at + i]);
      x_gradient.push_back(d);
      branch_gradient.push_back(d * Sum(kept_factor(dropout, n, i)));
    }
  }
};

template <typename C>
void check_case(const NormCase& c) {
  SCOPED_TRACE(::testing::Message() << c.rows << " x " << c.width << ", dropout " << c.dropout
                                    << ", offset " << c.offset);
  NormRun<C> run(c);
  run.run(Order::kShuffled);
  const PlainNorm<long double, C> exact(run);
  const PlainNorm<C, C> plain(run);
  const auto expect = [&](const std::vector<C>& ours, const auto& judge, const auto& formula,
                          const char* what) {
    expect_as_exact(ours, judge, formula, what, kEpsilon<C>);
  };
  const auto rows = [&](const std::vector<C>& from) {
    return within_width(from, c.width, run.stride);
  };
  expect(rows(run.sum), exact.sum, plain.sum, "sum");
  expect(rows(run.normed), exact.normed, plain.normed, "normed");
  expect(rows(run.x_gradient), exact.x_gradient, plain.x_gradient, "gradient of x");
  if (c.dropout > 0) {
    expect(rows(run.branch_gradient), exact.branch_gradient, plain.branch_gradient,
           "gradient of branch");
  }
  expect(run.weight_gradient, exact.weight_gradient, plain.weight_gradient, "gradient of weight");
  expect(run.bias_gradient, exact.bias_gradient, plain.bias_gradient, "gradient of bias");
}

class ResidualNorm : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::cpu::use_instruction_set(GetParam()); }
  void TearDown() override { kernels::cpu::use_instruction_set(""); }
};

TEST_P(ResidualNorm, EqualsPlainLoops) {
  // Around an item's rows (32), a vector, and the columns that random bits come in (64).
  for (const auto& [rows, width] : std::vector<std::array<int64_t, 2>>{{1, 1},
                                                                       {1, 2},
                                                                       {3, 15},
                                                                       {31, 16},
                                                                       {32, 17},
                                                                       {33, 63},
                                                                       {65, 64},
                                                                       {40, 65},
                                                                       {70, 128},
                                                                       {5, 1000}}) {
    for (const double dropout : {0.0, 0.3}) {
      check_case<float>({rows, width, dropout, 0.0, dropout > 0});
      check_case<double>({rows, width, dropout, 0.0, dropout == 0});
    }
  }
}

TEST_P(ResidualNorm, AMeanFarFromZeroLosesNothing) {
  check_case<float>({40, 96, 0.1, 300.0, true});
  check_case<double>({40, 96, 0.1, 1e6, true});
}

TEST_P(ResidualNorm, OrderOfItemsChangesNoBit) {
  const NormCase c{150, 48, 0.2, 0.0, true};
  NormRun<float> forwards(c), shuffled(c);
  forwards.run(Order::kForwards, Rubbish::kZero);
  shuffled.run(Order::kShuffled, Rubbish::kNumbers);
  EXPECT_EQ(forwards.normed, shuffled.normed);
  EXPECT_EQ(forwards.x_gradient, shuffled.x_gradient);
  EXPECT_EQ(forwards.weight_gradient, shuffled.weight_gradient);
  EXPECT_EQ(forwards.bias_gradient, shuffled.bias_gradient);
}

TEST_P(ResidualNorm, NaNStaysInItsRow) {
  NormRun<float> run({40, 32, 0.0, 0.0, true});
  run.x[7 * run.stride] = std::numeric_limits<float>::quiet_NaN();
  run.run();
  EXPECT_TRUE(std::isnan(run.normed[7 * run.stride + 3]));
  EXPECT_FALSE(std::isnan(run.normed[8 * run.stride + 3]));
  EXPECT_FALSE(std::isnan(run.x_gradient[6 * run.stride + 3]));
}

INSTANTIATE_TEST_SUITE_P(Kernels, ResidualNorm,
                         ::testing::ValuesIn(kernels::cpu::instruction_sets()));

}  // namespace
}  // namespace headwise::testing
