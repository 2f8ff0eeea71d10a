#include "src/train/shard.h"

#include <ATen/ATen.h>

#include <cmath>

#include "csrc/ops/linear_cross_entropy.h"
#include "src/evaluate/batch_tensors.h"

namespace headwise::train {
namespace {

/// (2 N, …): the rows of both halves in turn.
at::Tensor side_by_side(const at::Tensor& rows) {
  return rows.unflatten(0, {2, -1}).transpose(0, 1).flatten(0, 1);
}

}  // namespace

ShardResult differentiate_shard(model::Transformer& model, const data::Batch& shard, uint64_t seed,
                                double labels, const config::TrainConfig& config) {
  Laps laps;
  model->train();
  model::DropoutStreams streams(seed);
  const bool pairs = passes(config) == 2;
  const data::Batch seen = pairs ? data::twice(shard) : shard;
  const model::Memory memory = model->encode(evaluate::tensors_of(seen.source), streams);
  at::Tensor hidden = model->decode(evaluate::tensors_of(seen.target), memory, streams);
  at::Tensor targets = evaluate::labels_of(seen);
  if (pairs) {
    hidden = side_by_side(hidden);
    targets = side_by_side(targets);
  }
  StepTimes times;
  times.forward = laps.next();
  const LinearCrossEntropyResult loss =
      linear_cross_entropy(hidden, model->output_weight(), targets,
                           {.label_smoothing = config.label_smoothing,
                            .bfloat16_products = model->trains_in_bfloat16(),
                            .consistency = config.consistency});
  const double smoothed = loss.loss.item<double>() / passes(config);
  times.loss = laps.next();
  if (std::isfinite(smoothed)) (loss.loss / (labels * passes(config))).backward();
  times.backward = laps.next();
  return {smoothed, loss.nll.item<double>() / passes(config), times};
}

}  // namespace headwise::train
