// Forward and backward of one part of a micro-batch.
#pragma once

#include <cstdint>

#include "src/config/config.h"
#include "src/data/batch.h"
#include "src/model/transformer.h"
#include "src/train/step_times.h"

namespace headwise::train {

/// How often an update computes each pair: twice with R-Drop.
inline int passes(const config::TrainConfig& config) { return config.consistency > 0 ? 2 : 1; }

/// Sums over the labels of a shard, and what it took. With R-Drop the means of both passes.
struct ShardResult {
  double smoothed = 0, nll = 0;
  StepTimes times;
};

/// Adds the shard's gradients to those of `model`, which are for its own thread alone; none if the
/// loss is not finite.
/// `seed`: of everything random. `labels`: of the whole update, what its loss is the mean over.
ShardResult differentiate_shard(model::Transformer& model, const data::Batch& shard, uint64_t seed,
                                double labels, const config::TrainConfig& config);

}  // namespace headwise::train
