// What a training run is made of, and how it gets on disk and back.
#pragma once

#include <filesystem>
#include <string>

#include "src/config/load.h"
#include "src/data/batcher.h"
#include "src/data/corpus.h"
#include "src/data/epoch_corpus.h"
#include "src/data/subword.h"
#include "src/io/run_state.h"
#include "src/model/transformer.h"
#include "src/train/optimizer.h"

namespace headwise::train {

/// Everything a run is made of before the first update.
struct RunParts {
  config::Resolved settings;
  std::filesystem::path folder;
  data::Vocabularies vocabularies;
  data::EpochCorpus training;
  data::EncodedCorpus validation;
  data::ParallelText validation_text;
  model::Transformer model{nullptr};
  io::RunState state;
};

/// Publishes `parts.folder / name`: the weights to translate with (averaged ones when there is an
/// average) and everything a bit-exact continuation needs.
void save_checkpoint(const RunParts& parts, const std::string& name, const Optimizer& optimizer,
                     const MovingAverage* average);

/// Reads weights, moments and averages back in place. @throws UserError naming file and mismatch.
void load_checkpoint(const std::filesystem::path& checkpoint, const RunParts& parts,
                     const Optimizer& optimizer, const MovingAverage* average);

}  // namespace headwise::train
