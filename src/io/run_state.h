// Where a training run stands, and its diary: state.json and metrics.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "src/data/batcher.h"

namespace headwise::io {

/// What a bit-exact continuation depends on besides the checkpoint; recorded to be compared.
struct Machine {
  std::string build;  // versions of Headwise, torch and the compiler
  std::string cpu;    // name and the instruction set the kernels chose
  int64_t threads = 0;
};

/// Sums over updates.
struct UpdateSums {
  double smoothed = 0, nll = 0;  // losses
  int64_t labels = 0, source_tokens = 0;
  int64_t padded = 0;  // positions a padded form would hold
  double seconds = 0;
};

/// Counters of a run. Everything random is a function of (train.seed, micro_batches, position), so
/// these are its random state too.
struct RunState {
  int64_t step = 0;           // updates applied
  int64_t micro_batches = 0;  // begun, skipped ones included: the key of the dropout seeds
  data::DataPosition position;
  int64_t source_tokens = 0, target_tokens = 0;
  double seconds = 0;  // spent on updates, in all runs together
  int64_t skipped_updates = 0, consecutive_skipped = 0;

  int64_t last_validated = 0;  // step
  int64_t best_step = 0;       // 0: none yet
  double best_value = 0;       // in the unit of validation.best_by
  int64_t validations_without_improvement = 0;

  // Since the diary's last entry, so that a resumed run writes what an uninterrupted one writes.
  UpdateSums unreported;

  bool bfloat16 = false;  // products of training; the run keeps what it began with
  std::string corpus;     // identity of the training text
  Machine machine;
};

/// @throws UserError naming the path and the reason.
void write_state(const std::filesystem::path& path, const RunState& state);
RunState read_state(const std::filesystem::path& path);

}  // namespace headwise::io
