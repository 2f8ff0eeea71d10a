#include "src/model/positions.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

namespace headwise::model {
namespace {

TEST(SinusoidalTable, FollowsTheFormula) {
  for (const int64_t width : {6, 7}) {
    const at::Tensor table = sinusoidal_table(40, width, at::TensorOptions(at::kDouble));
    ASSERT_EQ(table.sizes(), (at::IntArrayRef{40, width}));
    for (int64_t position = 0; position < 40; ++position) {
      for (int64_t column = 0; column < width; ++column) {
        const double pair = double(column - column % 2);
        const double angle = double(position) / std::pow(10000.0, pair / double(width));
        const double expected = column % 2 == 0 ? std::sin(angle) : std::cos(angle);
        EXPECT_NEAR(table[position][column].item<double>(), expected, 1e-12);
      }
    }
  }
}

}  // namespace
}  // namespace headwise::model
