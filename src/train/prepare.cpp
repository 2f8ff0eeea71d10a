#include "src/train/prepare.h"

#include <ATen/ATen.h>
#include <torch/version.h>

#include <fstream>
#include <utility>

#include "src/config/error.h"
#include "src/data/grammar.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/file.h"
#include "src/io/model_io.h"
#include "src/log/log.h"
#include "src/train/precision.h"

namespace headwise::train {
namespace {

struct Texts {
  data::ParallelText training;
  data::ParallelText validation;  // empty: the configuration names none
};

data::ParallelText text_of_pairs(const std::vector<data::SentencePair>& pairs,
                                 const std::string& name) {
  std::vector<std::string> source, target;
  for (const data::SentencePair& pair : pairs) {
    source.push_back(pair.source);
    target.push_back(pair.target);
  }
  return data::make_parallel(std::move(source), std::move(target), name);
}

Texts read_texts(const config::DataConfig& data) {
  if (data.kind == config::DataKind::kEmbedded) {
    const auto split = [&](data::CorpusSplit which, int64_t count) {
      return text_of_pairs(data::embedded_split(which, count, uint64_t(data.embedded_seed)),
                           "the embedded corpus");
    };
    Texts texts = {split(data::CorpusSplit::kTrain, data.embedded_pairs), {}};
    if (data.embedded_valid > 0) {
      texts.validation = split(data::CorpusSplit::kValid, data.embedded_valid);
    }
    return texts;
  }
  const auto file = [&](const std::string& path) { return data::resolve_path(data, path); };
  Texts texts = {data::load_parallel(file(data.train_source), file(data.train_target)), {}};
  if (!data.valid_source.empty()) {
    texts.validation = data::load_parallel(file(data.valid_source), file(data.valid_target));
  }
  return texts;
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  std::string line, name = "unknown CPU";
  while (std::getline(info, line)) {
    if (line.starts_with("model name")) {
      name = line.substr(line.find(':') + 2);
      break;
    }
  }
  return name + ", " + at::get_cpu_capability();
}

io::Machine this_machine() {
  return {text_of("headwise ", HEADWISE_VERSION, ", torch ", TORCH_VERSION, ", ",
                  data::subword_library(), ", g++ ", __VERSION__),
          cpu_name(), at::get_num_threads()};
}

/// Sections whose change would make the stored weights meaningless, but for their dropouts.
bool structural(const std::string& key) {
  return (key.starts_with("model.") || key.starts_with("subword.")) &&
         key.find("dropout") == std::string::npos;
}

void compare_settings(const config::Config& before, const config::Config& after) {
  std::string refused;
  for (const config::Change& change : config::differences(before, after)) {
    const std::string text = change.key + ": " + change.before + " -> " + change.after;
    if (structural(change.key)) {
      refused += "\n  " + text;
    } else {
      log::warn("resuming with ", text);
    }
  }
  if (!refused.empty()) {
    throw UserError("cannot resume with another model or subword model; these must stay:" + refused,
                    kExitUsage);
  }
}

void compare_machine(const io::Machine& before, const io::Machine& now, int64_t shards) {
  const auto compare = [](const char* what, const auto& a, const auto& b) {
    if (a == b) return;
    log::warn(what, " changed from ", a, " to ", b, ": the run goes on, but not bit for bit");
  };
  compare("build", before.build, now.build);
  compare("CPU", before.cpu, now.cpu);
  // Shards are computed on one thread each, however many there are.
  if (shards == 1) compare("thread count", before.threads, now.threads);
}

void log_encoded(const char* name, const data::Encoded& encoded) {
  const data::DropCounts& dropped = encoded.dropped;
  log::info(name, ": ", encoded.corpus.size(), " pairs; left out: ", dropped.empty,
            " with an empty side, ", dropped.too_long, " too long, ", dropped.length_ratio,
            " by length ratio");
}

std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& folder,
                                                     bool resume) {
  if (!resume) {
    if (!io::steps(folder).empty()) {
      throw UserError(folder.string() +
                      " already holds a training run: add --resume to go on with it, or choose "
                      "another --output");
    }
    return std::nullopt;
  }
  const auto step = io::newest_whole(folder, [](const std::string& m) { log::warn(m); });
  if (!step) {
    if (!io::steps(folder).empty()) {
      throw UserError("no checkpoint in " + folder.string() + " is whole; nothing to resume from");
    }
    log::warn(folder.string(), " holds no checkpoint yet: starting from the beginning");
    return std::nullopt;
  }
  return folder / text_of("step-", *step);
}

/// Reads the counters of `checkpoint` and refuses what cannot be continued.
io::RunState resumed_state(const std::filesystem::path& checkpoint, const config::Config& config,
                           const std::string& corpus) {
  compare_settings(config::load(checkpoint / io::kConfigFile, {}).config, config);
  io::RunState state = io::read_state(checkpoint / io::kStateFile);
  if (state.corpus != corpus) {
    throw UserError("cannot resume: the training text is another one (stored: " + state.corpus +
                    "; found: " + corpus + "), and the saved position means nothing in it");
  }
  compare_machine(state.machine, this_machine(), config.train.shards);
  log::info("resuming from ", checkpoint.string(), " (step ", state.step, ", epoch ",
            state.position.epoch, ")");
  return state;
}

}  // namespace

Prepared prepare(const config::Resolved& settings, const std::filesystem::path& folder,
                 bool resume) {
  const config::Config& config = settings.config;
  Prepared prepared;
  prepared.checkpoint = find_checkpoint(folder, resume);
  RunParts& parts = prepared.parts;
  parts.settings = settings;
  parts.folder = folder;

  Texts texts = read_texts(config.data);
  const data::CorpusIdentity& identity = texts.training.identity;
  const std::string corpus =
      text_of(identity.lines, " lines, ", identity.bytes, " bytes, SHA-256 ", identity.sha256);
  if (prepared.checkpoint) {
    parts.state = resumed_state(*prepared.checkpoint, config, corpus);
    parts.vocabularies = io::load_vocabularies(*prepared.checkpoint);
  } else {
    log::info("making the subword model");
    parts.vocabularies = data::make_vocabularies(config.subword, texts.training);
  }
  parts.state.corpus = corpus;
  parts.state.machine = this_machine();

  const data::LengthLimits limits{config.data.max_length, config.data.max_length_ratio};
  data::Encoded training = data::encode(texts.training, parts.vocabularies, limits);
  log_encoded("training", training);
  parts.training = data::EpochCorpus(std::move(training.corpus), std::move(texts.training),
                                     parts.vocabularies, config);
  if (texts.validation.identity.lines > 0) {
    data::Encoded validation = data::encode(texts.validation, parts.vocabularies, limits);
    log_encoded("validation", validation);
    parts.validation = std::move(validation.corpus);
    parts.validation_text = std::move(texts.validation);
  }

  at::manual_seed(uint64_t(config.train.seed));
  parts.model = model::Transformer(config.model, parts.vocabularies.source.size(),
                                   parts.vocabularies.target.size());
  const Precision precision = choose_precision(
      config, prepared.checkpoint ? std::optional(parts.state.bfloat16) : std::nullopt);
  log::info("products of training in ", precision.bfloat16 ? "bf16" : "fp32", ": ",
            precision.reason);
  parts.state.bfloat16 = precision.bfloat16;
  parts.model->train_in_bfloat16(precision.bfloat16);
  io::replace_file(folder / io::kConfigFile, config::to_toml(settings));
  return prepared;
}

}  // namespace headwise::train
