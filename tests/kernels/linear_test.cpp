// Linear layers in bfloat16 against loops in a wider type over the rounded factors, on every
// instruction set of the machine, multiplied by its own instruction where it has one.
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "csrc/kernels/cpu/instruction_set.h"
#include "csrc/kernels/element.h"
#include "csrc/kernels/linear/params.h"
#include "tests/kernels/error_rule.h"
#include "tests/kernels/row_case.h"
#include "tests/kernels/run_plan.h"

namespace headwise::testing {
namespace {

using kernels::BFloat16;

struct LinearCase {
  int64_t rows, width;
  std::vector<int64_t> heights;  // of each layer
  bool has_bias, differentiates_x;
};

float rounded(float x) { return kernels::to_compute(kernels::from_compute<BFloat16>(x)); }

/// Everything one run reads and writes.
struct LinearRun {
  const LinearCase c;
  bool instruction;
  std::vector<float> x, x_gradient;
  struct Layer {
    std::vector<float> weight, bias, y, y_gradient, weight_gradient, bias_gradient;
  };
  std::vector<Layer> layers;

  LinearRun(LinearCase given, bool with_instruction)
      : c(std::move(given)), instruction(with_instruction), x_gradient(c.rows * c.width, -7) {
    Random random{c.rows, c.width};
    x = random_rows<float>(random, c.rows, c.width, c.width);
    for (const int64_t height : c.heights) {
      layers.push_back({random_rows<float>(random, height, c.width, c.width),
                        random_rows<float>(random, 1, height, height),
                        std::vector<float>(c.rows * height, -7),
                        random_rows<float>(random, c.rows, height, height),
                        std::vector<float>(height * c.width, -7), std::vector<float>(height, -7)});
    }
  }

  void run(Order order = Order::kForwards, Rubbish rubbish = Rubbish::kNaN) {
    kernels::LinearParams forward;
    kernels::LinearGradientParams backward;
    forward.instruction = backward.instruction = instruction;
    forward.rows = backward.rows = c.rows;
    forward.width = backward.width = c.width;
    forward.x = backward.x = x.data();
    if (c.differentiates_x) backward.x_gradient = x_gradient.data();
    forward.count = backward.count = static_cast<int64_t>(layers.size());
    for (size_t p = 0; p < layers.size(); ++p) {
      Layer& layer = layers[p];
      forward.parts[p] = {c.heights[p], layer.weight.data(),
                          c.has_bias ? layer.bias.data() : nullptr, layer.y.data()};
      backward.parts[p] = {c.heights[p], layer.weight.data(), layer.y_gradient.data(),
                           layer.weight_gradient.data(),
                           c.has_bias ? layer.bias_gradient.data() : nullptr};
    }
    run_plan(forward, order, rubbish);
    run_plan(backward, order, rubbish);
  }
};

/// The plain formulas in `Sum` on rounded factors.
template <typename Sum>
struct PlainLinear {
  std::vector<Sum> x_gradient;
  struct Layer {
    std::vector<Sum> y, weight_gradient, bias_gradient;
  };
  std::vector<Layer> layers;

  explicit PlainLinear(const LinearRun& run) : x_gradient(run.c.rows * run.c.width) {
    for (size_t p = 0; p < run.layers.size(); ++p) add_layer(run, p);
  }

 private:
  void add_layer(const LinearRun& run, size_t p) {
    const LinearRun::Layer& from = run.layers[p];
    const int64_t rows = run.c.rows, width = run.c.width, height = run.c.heights[p];
    Layer& to = layers.emplace_back();
    to.y.resize(rows * height);
    to.weight_gradient.resize(height * width);
    to.bias_gradient.resize(height);
    for (int64_t n = 0; n < rows; ++n) {
      for (int64_t j = 0; j < height; ++j) {
        const Sum g = rounded(from.y_gradient[n * height + j]);
        to.bias_gradient[j] += from.y_gradient[n * height + j];
        Sum& y = to.y[n * height + j];
        if (run.c.has_bias) y = from.bias[j];
        for (int64_t i = 0; i < width; ++i) {
          const Sum x = rounded(run.x[n * width + i]), w = rounded(from.weight[j * width + i]);
          y += x * w;
          to.weight_gradient[j * width + i] += g * x;
          x_gradient[n * width + i] += g * w;
        }
      }
    }
  }
};

void check_case(const LinearCase& c, bool instruction) {
  SCOPED_TRACE(::testing::Message()
               << c.rows << " x " << c.width << ", " << c.heights.size() << " layers, bias "
               << c.has_bias << ", instruction " << instruction);
  LinearRun run(c, instruction);
  run.run(Order::kShuffled);
  const PlainLinear<long double> exact(run);
  const PlainLinear<float> plain(run);
  const double epsilon = kEpsilon<float>;
  for (size_t p = 0; p < run.layers.size(); ++p) {
    const auto& ours = run.layers[p];
    const auto& judge = exact.layers[p];
    const auto& formula = plain.layers[p];
    expect_as_exact(ours.y, judge.y, formula.y, "y", epsilon);
    expect_as_exact(ours.weight_gradient, judge.weight_gradient, formula.weight_gradient,
                    "gradient of weight", epsilon);
    if (!c.has_bias) continue;
    expect_as_exact(ours.bias_gradient, judge.bias_gradient, formula.bias_gradient,
                    "gradient of bias", epsilon);
  }
  if (c.differentiates_x) {
    expect_as_exact(run.x_gradient, exact.x_gradient, plain.x_gradient, "gradient of x", epsilon);
  }
}

class Linear : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::cpu::use_instruction_set(GetParam()); }
  void TearDown() override { kernels::cpu::use_instruction_set(""); }
};

TEST_P(Linear, EqualsPlainLoopsOverRoundedFactors) {
  // Around the rows of an item (48), of the products of a gradient (192), and an odd number.
  for (const int64_t rows : {1, 2, 47, 48, 49, 191, 193, 400}) {
    for (const bool extras : {false, true}) {
      for (const LinearCase& c : {LinearCase{rows, 32, {32}, extras, true},
                                  {rows, 64, {32, 96}, extras, !extras},
                                  {rows, 32, {64, 32, 32}, extras, true}}) {
        check_case(c, false);
        if (kernels::cpu::multiplies_pairs()) check_case(c, true);
      }
    }
  }
}

TEST_P(Linear, NoRowsGiveGradientsOfZero) {
  LinearRun run({0, 32, {32}, true, true}, false);
  run.run();
  EXPECT_EQ(run.layers[0].weight_gradient, std::vector<float>(32 * 32, 0));
  EXPECT_EQ(run.layers[0].bias_gradient, std::vector<float>(32, 0));
}

TEST_P(Linear, OrderOfItemsChangesNoBit) {
  const bool instruction = kernels::cpu::multiplies_pairs();
  LinearRun forwards({301, 64, {64, 32}, true, true}, instruction);
  LinearRun shuffled(forwards.c, instruction);
  forwards.run(Order::kForwards, Rubbish::kZero);
  shuffled.run(Order::kShuffled, Rubbish::kNumbers);
  EXPECT_EQ(forwards.x_gradient, shuffled.x_gradient);
  for (size_t p = 0; p < 2; ++p) {
    EXPECT_EQ(forwards.layers[p].y, shuffled.layers[p].y);
    EXPECT_EQ(forwards.layers[p].weight_gradient, shuffled.layers[p].weight_gradient);
    EXPECT_EQ(forwards.layers[p].bias_gradient, shuffled.layers[p].bias_gradient);
  }
}

TEST_P(Linear, NaNStaysInItsRow) {
  const bool instruction = kernels::cpu::multiplies_pairs();
  LinearRun run({50, 32, {32}, true, true}, instruction);
  run.x[7 * 32 + 3] = std::numeric_limits<float>::quiet_NaN();
  run.run();
  EXPECT_TRUE(std::isnan(run.layers[0].y[7 * 32 + 5]));
  EXPECT_FALSE(std::isnan(run.layers[0].y[6 * 32 + 5]));
  EXPECT_TRUE(std::isnan(run.layers[0].weight_gradient[3]));
  EXPECT_FALSE(std::isnan(run.layers[0].weight_gradient[4]));
}

TEST_P(Linear, ThePlanSaysWhatMultiplies) {
  kernels::LinearParams params;
  params.count = 1;
  EXPECT_STREQ(plan(params).kernel, "cpu/linear, bfloat16 pairs as floats");
  params.instruction = true;
  EXPECT_STREQ(plan(params).kernel, "cpu/linear, bfloat16 pairs");
}

INSTANTIATE_TEST_SUITE_P(Kernels, Linear, ::testing::ValuesIn(kernels::cpu::instruction_sets()));

}  // namespace
}  // namespace headwise::testing
