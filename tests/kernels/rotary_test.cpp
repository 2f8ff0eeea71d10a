// Rotary positions against plain loops, on every instruction set of the machine. Every number is
// two products and their sum, so that results are compared exactly.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "csrc/kernels/cpu/instruction_set.h"
#include "csrc/kernels/rotary/params.h"
#include "tests/kernels/row_case.h"
#include "tests/kernels/run_plan.h"

namespace headwise::testing {
namespace {

template <typename C>
struct RotaryRun {
  int64_t rows, heads, width, positions;
  std::vector<C> x, cosine, sine, y;

  RotaryRun(int64_t n, int64_t h, int64_t d, int64_t p)
      : rows(n), heads(h), width(d), positions(p), y(n * h * d, C(-7)) {
    Random random{n, h, d, p};
    x = random_rows<C>(random, n * h, d, d);
    for (int64_t i = 0; i < p * d / 2; ++i) {
      const double angle = 10 * random.normal();
      cosine.push_back(C(std::cos(angle)));
      sine.push_back(C(std::sin(angle)));
    }
  }

  void run(bool inverse, Order order = Order::kForwards) {
    kernels::RotaryParams<C> params;
    params.rows = rows;
    params.heads = heads;
    params.width = width;
    params.positions = positions;
    params.cosine = cosine.data();
    params.sine = sine.data();
    params.inverse = inverse;
    params.x = x.data();
    params.y = y.data();
    run_plan(params, order);
  }
};

template <typename C>
void check_case(const std::array<int64_t, 4>& sizes, bool inverse) {
  const auto [rows, heads, width, positions] = sizes;
  SCOPED_TRACE(::testing::Message() << rows << " x " << heads << " x " << width << " at "
                                    << positions << " positions, inverse " << inverse);
  RotaryRun<C> run(rows, heads, width, positions);
  run.run(inverse, Order::kShuffled);
  const int64_t half = width / 2;
  for (int64_t n = 0; n < rows; ++n) {
    for (int64_t h = 0; h < heads; ++h) {
      const int64_t at = (n * heads + h) * width;
      for (int64_t i = 0; i < half; ++i) {
        const C a = run.x[at + i], b = run.x[at + half + i];
        const C c = run.cosine[n % positions * half + i];
        const C s = (inverse ? -1 : 1) * run.sine[n % positions * half + i];
        const C ac = a * c, bs = b * s, bc = b * c, as = a * s;
        ASSERT_EQ(run.y[at + i], ac - bs) << n << ", " << h << ", " << i;
        ASSERT_EQ(run.y[at + half + i], bc + as) << n << ", " << h << ", " << i;
      }
    }
  }
}

class Rotary : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::cpu::use_instruction_set(GetParam()); }
  void TearDown() override { kernels::cpu::use_instruction_set(""); }
};

TEST_P(Rotary, EqualsPlainLoops) {
  for (const std::array<int64_t, 4>& sizes : std::vector<std::array<int64_t, 4>>{
           {1, 1, 2, 1}, {33, 4, 32, 33}, {64, 2, 26, 16}, {70, 3, 70, 35}, {40, 1, 128, 8}}) {
    for (const bool inverse : {false, true}) {
      check_case<float>(sizes, inverse);
      check_case<double>(sizes, inverse);
    }
  }
}

TEST_P(Rotary, OrderOfItemsChangesNoBit) {
  RotaryRun<float> forwards(150, 4, 32, 150), backwards(150, 4, 32, 150);
  forwards.run(false);
  backwards.run(false, Order::kBackwards);
  EXPECT_EQ(forwards.y, backwards.y);
}

INSTANTIATE_TEST_SUITE_P(Kernels, Rotary, ::testing::ValuesIn(kernels::cpu::instruction_sets()));

}  // namespace
}  // namespace headwise::testing
