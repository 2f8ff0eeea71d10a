// headwise score MODEL SOURCE TARGET: ln p(target | source) of each line pair.
#include <ATen/Parallel.h>

#include <cmath>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "src/cli/command.h"
#include "src/cli/output.h"
#include "src/cli/signals.h"
#include "src/config/error.h"
#include "src/data/text_file.h"
#include "src/evaluate/scorer.h"
#include "src/io/model_io.h"
#include "src/log/log.h"

namespace headwise::cli {
namespace {

struct ScoreArguments {
  std::string model, source, target;
  int64_t threads = 0;
};

data::EncodedCorpus encode_all(const std::vector<std::string>& source,
                               const std::vector<std::string>& target,
                               const data::Vocabularies& vocabularies) {
  data::EncodedCorpus corpus;
  for (size_t i = 0; i < source.size(); ++i) {
    corpus.source.push_back(vocabularies.source.encode(source[i]));
    corpus.target.push_back(vocabularies.target.encode(target[i]));
    corpus.lines.push_back(int64_t(i) + 1);
  }
  return corpus;
}

int score(const ScoreArguments& arguments) {
  if (arguments.threads > 0) at::set_num_threads(int(arguments.threads));
  const auto source = data::read_lines(arguments.source).lines;
  const auto target = data::read_lines(arguments.target).lines;
  if (source.size() != target.size()) {
    throw UserError(text_of(arguments.source, " has ", source.size(), " lines, ", arguments.target,
                            " has ", target.size(), "; they must be translations line by line"));
  }
  io::LoadedModel loaded = io::load_model(arguments.model);
  const data::EncodedCorpus corpus = encode_all(source, target, loaded.vocabularies);
  data::BatcherOptions batching;
  batching.batch_tokens = loaded.config.train.batch_tokens;
  batching.source_eos = loaded.vocabularies.source.eos();
  batching.target_bos = loaded.vocabularies.target.bos();
  batching.target_eos = loaded.vocabularies.target.eos();
  catch_stop_signals();
  const std::vector<double> scores =
      evaluate::score_pairs(loaded.model, corpus, batching, stop_signal_safe_point());
  for (const double value : scores) print(log::fixed(value, 6) + '\n');

  int64_t labels = corpus.size();  // end tokens
  for (const data::Ids& ids : corpus.target) labels += int64_t(ids.size());
  const double total = std::accumulate(scores.begin(), scores.end(), 0.0);
  if (labels > 0) {
    log::info(corpus.size(), " pairs, ", labels, " target pieces: nll ",
              log::fixed(-total / double(labels), 4), " a piece, perplexity ",
              log::fixed(std::exp(-total / double(labels)), 2));
  }
  return kExitOk;
}

}  // namespace

void add_score(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<ScoreArguments>();
  CLI::App* command = app.add_subcommand(
      "score", "Print the natural log-probability of each target line given its source line");
  command->add_option("model", arguments->model, "a run's folder or one of its checkpoints")
      ->required();
  command->add_option("source", arguments->source, "text file, plain or gzip")->required();
  command->add_option("target", arguments->target, "its translation, line by line")->required();
  command->add_option("--threads", arguments->threads, "CPU threads; default: all cores")
      ->check(CLI::Range(1, 4096));
  command->callback([arguments, &action] { action = [arguments] { return score(*arguments); }; });
}

}  // namespace headwise::cli
