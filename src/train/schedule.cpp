#include "src/train/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace headwise::train {
namespace {

/// Share of the way from the end of warm-up to the horizon, in [0, 1].
double progress(const config::ScheduleConfig& schedule, int64_t step) {
  const auto span = double(std::max<int64_t>(1, schedule.horizon - schedule.warmup));
  return std::clamp(double(step - schedule.warmup) / span, 0.0, 1.0);
}

double factor(const config::ScheduleConfig& schedule, int64_t step) {
  if (step < schedule.warmup) return double(step) / double(schedule.warmup);
  const double final = schedule.final_factor;
  switch (schedule.kind) {
    case config::ScheduleKind::kInverseSqrt:
      return std::sqrt(double(std::max<int64_t>(1, schedule.warmup)) / double(step));
    case config::ScheduleKind::kCosine: {
      const double angle = std::numbers::pi * progress(schedule, step);
      return final + (1 - final) * 0.5 * (1 + std::cos(angle));
    }
    case config::ScheduleKind::kLinear:
      return final + (1 - final) * (1 - progress(schedule, step));
    case config::ScheduleKind::kConstant:
      return 1;
  }
  return 1;
}

}  // namespace

double learning_rate(const config::ScheduleConfig& schedule, int64_t step) {
  return schedule.learning_rate * factor(schedule, step);
}

}  // namespace headwise::train
