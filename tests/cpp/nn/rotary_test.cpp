// Rotary positions: the turn itself, and what it promises about distances.
#include "csrc/nn/rotary.h"

#include <cmath>

#include "tests/cpp/nn/support.h"

namespace headwise::nn::test {
namespace {

TEST(Rotary, TurnsEachPairByItsOwnAngle) {
  const at::Tensor heads = at::randn({5, 2, 6}, at::kDouble);
  const at::Tensor positions = at::tensor({0, 1, 2, 7, 100}, at::kLong);
  const at::Tensor turned =
      rotate_by_position(heads, rotary_table(positions, 6, heads.scalar_type()));
  const auto in = heads.accessor<double, 3>();
  const auto out = turned.accessor<double, 3>();
  for (int64_t t = 0; t < 5; ++t) {
    for (int64_t h = 0; h < 2; ++h) {
      for (int64_t i = 0; i < 3; ++i) {
        const double angle = positions[t].item<double>() / std::pow(10000.0, 2.0 * i / 6);
        const double a = in[t][h][i], b = in[t][h][i + 3];
        EXPECT_NEAR(out[t][h][i], a * std::cos(angle) - b * std::sin(angle), 1e-12);
        EXPECT_NEAR(out[t][h][i + 3], a * std::sin(angle) + b * std::cos(angle), 1e-12);
      }
    }
  }
}

TEST(Rotary, ScoresDependOnDistanceOnly) {
  const at::Tensor query = at::randn({1, 1, 8}, at::kDouble);
  const at::Tensor key = at::randn({1, 1, 8}, at::kDouble);
  const auto turned = [](const at::Tensor& heads, int64_t position) {
    return rotate_by_position(heads,
                              rotary_table(at::full({1}, position, at::kLong), 8, at::kDouble));
  };
  const auto score = [&](int64_t i, int64_t j) {
    return (turned(query, i) * turned(key, j)).sum().item<double>();
  };
  EXPECT_NEAR(score(3, 1), score(40, 38), 1e-11);
  EXPECT_GT(std::abs(score(3, 1) - score(3, 2)), 1e-4);
}

TEST(Rotary, PackedPositionsBeginAnewWithEachSequence) {
  const at::Tensor positions = packed_positions(at::tensor({0, 3, 3, 5}, at::kInt), 5);
  EXPECT_TRUE(at::equal(positions, at::tensor({0, 1, 2, 0, 1}, at::kLong)));
}

}  // namespace
}  // namespace headwise::nn::test
