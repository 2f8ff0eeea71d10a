// The training loop: batches, updates, validation, checkpoints, stops.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/config/interrupt.h"
#include "src/data/batcher.h"
#include "src/io/diary.h"
#include "src/train/memory.h"
#include "src/train/optimizer.h"
#include "src/train/progress.h"
#include "src/train/replicas.h"
#include "src/train/run_parts.h"
#include "src/train/step_times.h"

namespace headwise::train {

class Trainer {
 public:
  /// Resumes from `checkpoint` when given: weights, moments and averages are read, `parts.state`
  /// must already hold its counters.
  Trainer(RunParts parts, const std::optional<std::filesystem::path>& checkpoint);

  /// Trains until a stop. @throws Interrupted after saving, when `safe_point` throws it;
  ///   UserError when a loss is not finite and the run is told to stop at that.
  void run(const SafePoint& safe_point);

 private:
  std::vector<data::Batch> next_batches();
  void update(const SafePoint& safe_point);
  bool accumulate_gradients(const std::vector<data::Batch>& batches, io::UpdateSums& sums,
                            const SafePoint& safe_point);
  /// Adds a micro-batch's gradients to those of the replicas. False: a loss is not finite.
  bool add_gradients(const data::Batch& batch, int64_t micro_batch, io::UpdateSums& sums);
  void skip_update(const std::vector<data::Batch>& batches, const std::string& what);
  void note_progress(const io::UpdateSums& sums, double gradient_norm);

  void forecast_memory();
  void validate(const SafePoint& safe_point, bool counts_for_patience);
  void save();
  void restore_links();
  void average_last();
  /// Why the run is over, if it is.
  std::optional<std::string> stop_reason() const;
  double remaining_seconds() const;

  RunParts parts_;
  const int64_t resident_ = process_memory().now;  // bytes: the weights are there, nothing else yet
  const config::Config& config_;
  Optimizer optimizer_;
  Replicas replicas_;
  std::unique_ptr<MovingAverage> average_;
  data::Batcher batcher_;
  io::Diary diary_;
  ProgressLine line_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();

  StepTimes unreported_times_;
  int64_t last_saved_ = -1;
  bool improved_ = false;
};

}  // namespace headwise::train
