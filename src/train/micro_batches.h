// What the trainer needs to know about its batches.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/data/batcher.h"
#include "src/data/subword.h"

namespace headwise::train {

/// How [train] and the subword models want batches to be made.
data::BatcherOptions batching_of(const config::TrainConfig& train,
                                 const data::Vocabularies& vocabularies);

/// Positions a padded form of the batch would hold, both sides.
int64_t padded_positions(const data::Batch& batch);

/// "lines 17, 4, 203 and 61 more": the first few of an update, as a user finds them in the files.
std::string lines_of(const std::vector<data::Batch>& batches);

/// One seed for everything random in a shard of a micro-batch (SplitMix64's mixing of the numbers).
uint64_t shard_seed(int64_t run_seed, int64_t micro_batch, int64_t shard);

}  // namespace headwise::train
