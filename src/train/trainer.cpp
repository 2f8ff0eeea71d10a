#include "src/train/trainer.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "src/config/error.h"
#include "src/io/average.h"
#include "src/io/checkpoint_folder.h"
#include "src/log/log.h"
#include "src/train/micro_batches.h"
#include "src/train/schedule.h"
#include "src/train/shard.h"
#include "src/train/validation.h"

namespace headwise::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

bool all_finite(const io::Tensors& tensors) {
  return std::all_of(tensors.begin(), tensors.end(), [](const auto& item) {
    return at::isfinite(item.second).all().template item<bool>();
  });
}

}  // namespace

Trainer::Trainer(RunParts parts, const std::optional<std::filesystem::path>& checkpoint)
    : parts_(std::move(parts)),
      config_(parts_.settings.config),
      optimizer_(io::parameters_of(*parts_.model), config_.optimizer),
      replicas_(parts_.model, config_.train.shards),
      batcher_(
          [this](int64_t epoch) -> auto& { return parts_.training.of_epoch(epoch); },
          batching_of(config_.train, parts_.vocabularies), parts_.state.position),
      diary_(parts_.folder / "metrics.jsonl", parts_.state.step) {
  forecast_memory();
  const io::Tensors parameters = io::parameters_of(*parts_.model);
  if (config_.train.ema > 0) {
    average_ = std::make_unique<MovingAverage>(parameters, config_.train.ema);
  }
  if (!checkpoint) return;
  load_checkpoint(*checkpoint, parts_, optimizer_, average_.get());
  last_saved_ = parts_.state.step;
  restore_links();
}

void Trainer::run(const SafePoint& safe_point) {
  const config::ValidationConfig& validation = config_.validation;
  const config::CheckpointConfig& checkpoint = config_.checkpoint;
  const io::RunState& state = parts_.state;
  const auto due = [&](int64_t every, int64_t last) {
    return every > 0 && state.step > 0 && state.step % every == 0 && last != state.step;
  };
  try {
    while (true) {
      if (due(validation.every, state.last_validated)) validate(safe_point, true);
      if (improved_ || due(checkpoint.every, last_saved_)) save();
      if (const auto reason = stop_reason()) {
        line_.finish();
        log::info("stopping at step ", state.step, ": ", *reason);
        break;
      }
      update(safe_point);
    }
    if (validation.every > 0 && state.last_validated != state.step) validate(safe_point, false);
    if (improved_ || last_saved_ != state.step) save();
    average_last();
    const int64_t peak = process_memory().peak;
    log::info("memory: ", mebibytes(peak), " at the peak");
    diary_.write("memory_peak", {{"step", state.step}, {"bytes", peak}});
  } catch (const Interrupted& interrupted) {
    line_.finish();
    if (last_saved_ != state.step) save();
    log::warn("signal ", interrupted.signal, ": stopped at step ", state.step,
              ", checkpoint saved; go on with --resume");
    throw;
  }
}

std::vector<data::Batch> Trainer::next_batches() {
  std::vector<data::Batch> batches;
  const int64_t last_epoch = config_.train.max_epochs - 1;
  while (int64_t(batches.size()) < config_.train.accumulate) {
    batches.push_back(batcher_.next());
    // The last update of the last epoch takes what is left, weighted by its own tokens.
    if (last_epoch >= 0 && batcher_.position().epoch > last_epoch) break;
  }
  return batches;
}

void Trainer::update(const SafePoint& safe_point) {
  const Clock::time_point start = Clock::now();
  safe_point();
  io::RunState& state = parts_.state;
  // Until the update is whole, the run's state stands where the last one ended: a stop in between
  // drops the gradients and loses nothing.
  Laps laps;
  const std::vector<data::Batch> batches = next_batches();
  StepTimes times;
  times.batches = laps.next();
  io::UpdateSums sums;
  const bool finite = accumulate_gradients(batches, sums, safe_point);
  state.position = batcher_.position();
  state.micro_batches += int64_t(batches.size());
  if (!finite) return skip_update(batches, "loss");
  laps.next();
  const double norm = optimizer_.gradient_norm();
  if (!std::isfinite(norm)) return skip_update(batches, "gradient");

  const double limit = config_.train.clip_norm;
  if (limit > 0 && norm > limit) optimizer_.scale_gradients(limit / norm);
  ++state.step;
  state.consecutive_skipped = 0;
  state.source_tokens += sums.source_tokens;
  state.target_tokens += sums.labels;
  optimizer_.update(learning_rate(config_.schedule, state.step), state.step);
  if (average_) average_->update(state.step);
  times.update = laps.next();
  unreported_times_ += times;
  sums.seconds = seconds_since(start);
  note_progress(sums, norm);
}

bool Trainer::accumulate_gradients(const std::vector<data::Batch>& batches, io::UpdateSums& sums,
                                   const SafePoint& safe_point) {
  for (const data::Batch& batch : batches) {
    sums.labels += int64_t(batch.labels.size());
    sums.source_tokens += int64_t(batch.source.tokens.size());
    sums.padded += padded_positions(batch);
  }
  replicas_.forget_gradients();
  for (size_t i = 0; i < batches.size(); ++i) {
    if (i > 0) safe_point();
    if (!add_gradients(batches[i], parts_.state.micro_batches + int64_t(i), sums)) return false;
  }
  Laps laps;
  replicas_.sum_gradients();
  unreported_times_.update += laps.next();
  return true;
}

bool Trainer::add_gradients(const data::Batch& batch, int64_t micro_batch, io::UpdateSums& sums) {
  const std::vector<data::Batch> shards = data::split(batch, replicas_.count());
  std::vector<ShardResult> results(shards.size());
  const double labels = double(sums.labels);
  const auto differentiate = [&](size_t i) {
    const uint64_t seed = shard_seed(config_.train.seed, micro_batch, int64_t(i));
    results[i] = differentiate_shard(replicas_[int64_t(i)], shards[i], seed, labels, config_.train);
  };
  // Also where a batch has fewer sentences than there may be shards: inside of parallel_for each is
  // one thread's work, and its bits do not depend on how many threads there are. With one replica
  // parallel_for does not fork, and operations have all threads.
  at::parallel_for(0, replicas_.count(), 1, [&](int64_t begin, int64_t end) {
    end = std::min(end, int64_t(shards.size()));
    for (int64_t i = begin; i < end; ++i) differentiate(size_t(i));
  });
  for (const ShardResult& result : results) {
    if (!std::isfinite(result.smoothed)) return false;
    sums.smoothed += result.smoothed;
    sums.nll += result.nll;
    unreported_times_ += result.times;
  }
  return true;
}

void Trainer::skip_update(const std::vector<data::Batch>& batches, const std::string& what) {
  io::RunState& state = parts_.state;
  const std::string message =
      text_of("step ", state.step + 1, ": ", what, " is not finite (learning rate ",
              learning_rate(config_.schedule, state.step + 1), ", ", lines_of(batches), ")");
  ++state.skipped_updates;
  ++state.consecutive_skipped;
  diary_.write("non_finite",
               {{"step", state.step + 1}, {"what", what}, {"lines", lines_of(batches)}});
  line_.finish();
  if (config_.train.on_non_finite == config::OnNonFinite::kStop) {
    if (last_saved_ != state.step) save();
    throw UserError(message +
                    "; the weights before it are saved. Stopped because "
                    "train.on_non_finite = \"stop\"");
  }
  log::warn(message, "; this update is skipped");
  if (state.consecutive_skipped >= config_.train.max_non_finite) {
    if (last_saved_ != state.step) save();
    throw UserError(text_of(message, "; ", state.consecutive_skipped,
                            " updates in a row were skipped (train.max_non_finite): a lower "
                            "schedule.learning_rate or a train.clip_norm may help"));
  }
}

void Trainer::note_progress(const io::UpdateSums& sums, double gradient_norm) {
  io::RunState& state = parts_.state;
  io::UpdateSums& recent = state.unreported;
  state.seconds += sums.seconds;
  recent.smoothed += sums.smoothed;
  recent.nll += sums.nll;
  recent.labels += sums.labels;
  recent.source_tokens += sums.source_tokens;
  recent.padded += sums.padded;
  recent.seconds += sums.seconds;
  const bool log = state.step % config_.train.log_every == 0;
  if (!log && !line_.on_terminal()) return;

  Progress progress;
  progress.step = state.step;
  progress.epoch = double(state.position.epoch) +
                   double(state.position.sentence) / double(parts_.training.size());
  const auto labels = double(recent.labels);
  const double tokens = labels + double(recent.source_tokens);
  progress.loss = recent.smoothed / labels;
  progress.nll = recent.nll / labels;
  progress.learning_rate = learning_rate(config_.schedule, state.step);
  progress.gradient_norm = gradient_norm;
  progress.tokens_per_second = tokens / recent.seconds;
  progress.padding_share = 1 - tokens / double(recent.padded);
  progress.remaining_seconds = remaining_seconds();
  line_.show(line_of(progress));
  if (!log) return;
  diary_.write("train", {{"step", progress.step},
                         {"epoch", progress.epoch},
                         {"loss", progress.loss},
                         {"nll", progress.nll},
                         {"learning_rate", progress.learning_rate},
                         {"gradient_norm", progress.gradient_norm},
                         {"tokens_per_second", progress.tokens_per_second},
                         {"padding_skipped", progress.padding_share},
                         {"source_tokens", state.source_tokens},
                         {"target_tokens", state.target_tokens},
                         {"seconds", state.seconds},
                         {"batches_seconds", unreported_times_.batches},
                         {"forward_seconds", unreported_times_.forward},
                         {"loss_seconds", unreported_times_.loss},
                         {"backward_seconds", unreported_times_.backward},
                         {"update_seconds", unreported_times_.update},
                         {"skipped_updates", state.skipped_updates}});
  recent = {};
  unreported_times_ = {};
}

void Trainer::forecast_memory() {
  const data::Batcher::Largest largest = batcher_.largest_batch();
  const int64_t seen = passes(config_.train);
  const cost::TrainingMemory needed = cost::training_memory(
      config_, parts_.model->source_vocabulary(), parts_.model->target_vocabulary(),
      {largest.source_tokens * seen, largest.target_tokens * seen}, at::get_num_threads());
  // The weights were there already, and so were the text and the libraries.
  const int64_t forecast = resident_ + needed.total() - needed.weights;
  log::info("memory: about ", mebibytes(forecast), " at the peak: ", mebibytes(resident_),
            " resident at the start, gradients and optimiser ",
            mebibytes(needed.gradients + needed.moments + needed.average), ", activations ",
            mebibytes(needed.activations), ", loss ", mebibytes(needed.loss), ", kept for reuse ",
            mebibytes(needed.kept));
  diary_.write("memory_forecast",
               {{"step", parts_.state.step}, {"bytes", forecast}, {"resident_bytes", resident_}});
}

void Trainer::validate(const SafePoint& safe_point, bool counts_for_patience) {
  io::RunState& state = parts_.state;
  ValidationResult result;
  bool finite = false;
  {
    const AveragedScope averaged(average_.get());
    finite = all_finite(io::parameters_of(*parts_.model));
    result = train::validate(parts_.model, parts_.vocabularies, parts_.validation,
                             parts_.validation_text, config_, safe_point);
  }
  const bool by_bleu = config_.validation.best_by == config::BestBy::kBleu && result.bleu;
  const double value = by_bleu ? *result.bleu : result.nll;
  const bool better =
      state.best_step == 0 || (by_bleu ? value > state.best_value : value < state.best_value);
  improved_ = better && finite && std::isfinite(result.nll);
  state.last_validated = state.step;
  last_saved_ = -1;  // a checkpoint of this step does not know of the validation yet
  if (improved_) {
    state.best_step = state.step;
    state.best_value = value;
    state.validations_without_improvement = 0;
  } else if (counts_for_patience) {
    ++state.validations_without_improvement;
  }
  line_.finish();
  log::info("validation at step ", state.step, ": nll ", log::fixed(result.nll, 4), "  perplexity ",
            log::fixed(std::exp(result.nll), 2),
            result.bleu ? "  BLEU " + log::fixed(*result.bleu, 2) : "", "  (",
            log::fixed(result.seconds, 1), " s)", improved_ ? "  best so far" : "");
  io::DiaryEntry entry = {{"step", state.step}, {"nll", result.nll}, {"loss", result.smoothed}};
  if (result.bleu) entry.emplace_back("bleu", *result.bleu);
  entry.emplace_back("validation_seconds", result.seconds);
  entry.emplace_back("seconds", state.seconds);
  entry.emplace_back("best", int64_t(improved_));
  diary_.write("validation", entry);
}

void Trainer::save() {
  const std::string name = text_of("step-", parts_.state.step);
  line_.finish();
  save_checkpoint(parts_, name, optimizer_, average_.get());
  io::point(parts_.folder, "last", name);
  if (improved_) io::point(parts_.folder, "best", name);
  improved_ = false;
  last_saved_ = parts_.state.step;
  io::prune(parts_.folder, std::max(config_.checkpoint.keep, config_.train.average_last));
}

// A process that died between publishing a checkpoint and pointing at it left the links of before.
void Trainer::restore_links() {
  const auto point = [this](const char* link, int64_t step) {
    const std::string name = text_of("step-", step);
    if (std::filesystem::exists(parts_.folder / name)) io::point(parts_.folder, link, name);
  };
  point("last", parts_.state.step);
  if (parts_.state.best_step > 0) point("best", parts_.state.best_step);
}

void Trainer::average_last() {
  const int64_t wanted = config_.train.average_last;
  if (wanted < 2) return;
  std::vector<std::filesystem::path> newest;
  for (const int64_t step : io::steps(parts_.folder)) {
    if (step > parts_.state.step) break;  // damaged ones that resuming passed over
    newest.push_back(parts_.folder / text_of("step-", step));
  }
  if (int64_t(newest.size()) > wanted) newest.erase(newest.begin(), newest.end() - wanted);
  const std::string name = text_of("average-", newest.size());
  io::write_average(newest, parts_.folder / name);
  log::info("mean of the last ", newest.size(), " checkpoints: ", (parts_.folder / name).string());
}

std::optional<std::string> Trainer::stop_reason() const {
  const config::TrainConfig& train = config_.train;
  const io::RunState& state = parts_.state;
  const int64_t patience = config_.validation.patience;
  if (train.max_steps > 0 && state.step >= train.max_steps) return "train.max_steps is reached";
  if (train.max_epochs > 0 && state.position.epoch >= train.max_epochs) {
    return "train.max_epochs is reached";
  }
  if (train.max_minutes > 0 && seconds_since(begin_) >= 60 * train.max_minutes) {
    return "train.max_minutes is reached";
  }
  if (patience > 0 && state.validations_without_improvement >= patience) {
    return text_of("no improvement in ", patience, " validations (validation.patience)");
  }
  return std::nullopt;
}

double Trainer::remaining_seconds() const {
  const config::TrainConfig& train = config_.train;
  const io::RunState& state = parts_.state;
  const double per_step = state.seconds / double(std::max<int64_t>(1, state.step));
  double least = std::numeric_limits<double>::infinity();
  if (train.max_steps > 0) least = std::min(least, per_step * double(train.max_steps - state.step));
  if (train.max_minutes > 0) {
    least = std::min(least, std::max(0.0, 60 * train.max_minutes - seconds_since(begin_)));
  }
  if (train.max_epochs > 0) {
    const double done = double(state.position.epoch) +
                        double(state.position.sentence) / double(parts_.training.size());
    least = std::min(least, state.seconds / done * std::max(0.0, double(train.max_epochs) - done));
  }
  return std::isfinite(least) ? least : -1;
}

}  // namespace headwise::train
