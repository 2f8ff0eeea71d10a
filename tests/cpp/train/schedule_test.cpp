// Learning rates against their closed forms, worked out by hand for a peak of 0.4 after 4 updates.
#include "src/train/schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

namespace headwise::train {
namespace {

config::ScheduleConfig schedule(config::ScheduleKind kind) {
  config::ScheduleConfig config;
  config.kind = kind;
  config.learning_rate = 0.4;
  config.warmup = 4;
  config.horizon = 12;
  config.final_factor = 0.25;
  return config;
}

constexpr config::ScheduleKind kEvery[] = {
    config::ScheduleKind::kInverseSqrt, config::ScheduleKind::kCosine,
    config::ScheduleKind::kLinear, config::ScheduleKind::kConstant};

TEST(LearningRate, EveryKindWarmsUpInAStraightLine) {
  for (const auto kind : kEvery) {
    for (const auto& [step, rate] : {std::pair{1, 0.1}, {2, 0.2}, {3, 0.3}, {4, 0.4}}) {
      EXPECT_NEAR(learning_rate(schedule(kind), step), rate, 1e-15) << "step " << step;
    }
  }
}

TEST(LearningRate, WithoutWarmUpItStartsAtThePeak) {
  for (const auto kind : kEvery) {
    config::ScheduleConfig config = schedule(kind);
    config.warmup = 0;
    const bool falls =
        kind == config::ScheduleKind::kCosine || kind == config::ScheduleKind::kLinear;
    if (falls) {
      EXPECT_LT(learning_rate(config, 1), 0.4);  // one step along the way to the horizon
      EXPECT_GT(learning_rate(config, 1), 0.37);
    } else {
      EXPECT_DOUBLE_EQ(learning_rate(config, 1), 0.4);
    }
  }
}

TEST(LearningRate, InverseSqrtHalvesWhenTheStepQuadruples) {
  const auto config = schedule(config::ScheduleKind::kInverseSqrt);
  EXPECT_NEAR(learning_rate(config, 16), 0.2, 1e-15);
  EXPECT_NEAR(learning_rate(config, 64), 0.1, 1e-15);
  EXPECT_NEAR(learning_rate(config, 400), 0.04, 1e-15);
}

TEST(LearningRate, CosineIsHalfWayInTheMiddleAndStaysAtItsFloor) {
  const auto config = schedule(config::ScheduleKind::kCosine);
  EXPECT_NEAR(learning_rate(config, 8), 0.4 * (0.25 + 0.75 / 2), 1e-15);
  const double quarter = 0.5 * (1 + std::cos(std::numbers::pi / 4));
  EXPECT_NEAR(learning_rate(config, 6), 0.4 * (0.25 + 0.75 * quarter), 1e-15);
  for (const int step : {12, 13, 1000000}) EXPECT_NEAR(learning_rate(config, step), 0.1, 1e-15);
}

TEST(LearningRate, LinearFallsEvenlyAndStaysAtItsFloor) {
  const auto config = schedule(config::ScheduleKind::kLinear);
  EXPECT_NEAR(learning_rate(config, 6), 0.4 - 0.3 / 4, 1e-15);
  EXPECT_NEAR(learning_rate(config, 8), 0.25, 1e-15);
  for (const int step : {12, 13, 1000000}) EXPECT_NEAR(learning_rate(config, step), 0.1, 1e-15);
}

TEST(LearningRate, ConstantStays) {
  const auto config = schedule(config::ScheduleKind::kConstant);
  for (const int step : {4, 5, 1000000}) EXPECT_DOUBLE_EQ(learning_rate(config, step), 0.4);
}

}  // namespace
}  // namespace headwise::train
