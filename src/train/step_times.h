// Where the time of an update goes.
#pragma once

#include <chrono>

namespace headwise::train {

/// Seconds; those of shards that are computed side by side are added.
struct StepTimes {
  double batches = 0, forward = 0, loss = 0, backward = 0, update = 0;

  StepTimes& operator+=(const StepTimes& other) {
    batches += other.batches;
    forward += other.forward;
    loss += other.loss;
    backward += other.backward;
    update += other.update;
    return *this;
  }
};

/// Seconds since the last call.
class Laps {
 public:
  double next() {
    const Clock::time_point now = Clock::now();
    const std::chrono::duration<double> lap = now - last_;
    last_ = now;
    return lap.count();
  }

 private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point last_ = Clock::now();
};

}  // namespace headwise::train
