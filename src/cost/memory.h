// What a training run will need in memory, from its configuration alone.
#pragma once

#include <cstdint>

#include "src/config/config.h"

namespace headwise::cost {

/// The largest batch of a run, in packed tokens.
struct BatchSize {
  int64_t source_tokens = 0, target_tokens = 0;
};

/// Bytes of a training step at its peak, the end of the forward pass, by what they are for.
struct TrainingMemory {
  int64_t weights = 0;
  int64_t gradients = 0;    // of every shard
  int64_t moments = 0;      // of Adam
  int64_t average = 0;      // exponential moving average, and its exchange buffer
  int64_t activations = 0;  // kept for the backward pass
  int64_t loss = 0;         // scores of one chunk and the gradient of the output layer
  int64_t kept = 0;         // that the ops keep between results
  int64_t total() const {
    return weights + gradients + moments + average + activations + loss + kept;
  }
};

/// Parameters of the model; `pieces` of the vocabularies.
int64_t parameter_count(const config::ModelConfig& model, int64_t source_pieces,
                        int64_t target_pieces);

/// Everything in float32. Activations are counted tensor by tensor as the layers keep them, of as
/// many shards of the largest batch as are computed at once.
TrainingMemory training_memory(const config::Config& config, int64_t source_pieces,
                               int64_t target_pieces, const BatchSize& largest, int64_t threads);

}  // namespace headwise::cost
