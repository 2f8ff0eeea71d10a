// headwise translate MODEL: standard input to standard output, line n in = line n out.
#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "csrc/ops/ensemble.h"
#include "src/cli/command.h"
#include "src/cli/line_reader.h"
#include "src/cli/output.h"
#include "src/cli/signals.h"
#include "src/config/error.h"
#include "src/data/utf8_repair.h"
#include "src/evaluate/translator.h"
#include "src/io/model_io.h"
#include "src/log/log.h"
#include "src/model/packed.h"

namespace headwise::cli {
namespace {

constexpr int64_t kChunkLines = 2000;  // read, translated and printed together

struct TranslateArguments {
  std::vector<std::string> models;
  std::string prefix, long_lines;
  int64_t beam = 0, nbest = 1, threads = 0, batch_tokens = 0, stop_after = -1;
  double length_penalty = -1;
  bool scores = false;
};

evaluate::TranslateOptions options_of(const TranslateArguments& arguments,
                                      const config::Config& config) {
  evaluate::TranslateOptions options;
  options.decoding = config.translate;
  options.max_length = config.data.max_length;
  options.nbest = arguments.nbest;
  options.prefix = arguments.prefix;
  if (arguments.beam > 0) options.decoding.beam = arguments.beam;
  if (arguments.batch_tokens > 0) options.decoding.batch_tokens = arguments.batch_tokens;
  if (arguments.length_penalty >= 0) options.decoding.length_penalty = arguments.length_penalty;
  if (arguments.stop_after >= 0) options.decoding.stop_after = arguments.stop_after;
  if (arguments.long_lines == "split") options.decoding.long_lines = config::LongLines::kSplit;
  if (arguments.long_lines == "refuse") options.decoding.long_lines = config::LongLines::kRefuse;
  if (options.nbest > options.decoding.beam) {
    throw UserError(text_of("--nbest ", options.nbest, " needs a beam at least as wide; it is ",
                            options.decoding.beam, " (--beam)"),
                    kExitUsage);
  }
  if (options.decoding.stop_after > 0 && options.decoding.stop_after < options.nbest) {
    throw UserError(
        text_of("--nbest ", options.nbest, " needs as many hypotheses to finish; the search ",
                "stops after ", options.decoding.stop_after, " (--stop-after)"),
        kExitUsage);
  }
  return options;
}

/// Up to `count` lines; bytes that are no UTF-8 become U+FFFD.
std::vector<std::string> read_lines(LineReader& reader, int64_t count, int64_t first_line) {
  std::vector<std::string> lines;
  while (int64_t(lines.size()) < count) {
    const std::optional<std::string> line = reader.next();
    if (!line) break;
    std::string repaired = data::repair_utf8(*line);
    if (repaired != *line) {
      log::warn("line ", first_line + int64_t(lines.size()),
                ": invalid UTF-8; the bytes are replaced by U+FFFD");
    }
    lines.push_back(std::move(repaired));
  }
  return lines;
}

class Printer {
 public:
  explicit Printer(const TranslateArguments& arguments)
      : scores_(arguments.scores), nbest_(arguments.nbest > 1) {}

  void show(const evaluate::TranslatedLine& line, int64_t number) const {
    if (line.parts > 1) {
      log::warn("line ", number, ": over the model's limit, translated in ", line.parts, " parts");
    }
    for (size_t rank = 0; rank < line.nbest.size(); ++rank) {
      const evaluate::Translation& best = line.nbest[rank];
      if (!best.finished) {
        log::warn("line ", number, ": no end within the length limit, the translation is cut");
      }
      std::string row;
      if (nbest_) row += text_of(number, '\t', rank + 1, '\t');
      if (scores_)
        row += log::fixed(best.score, 6) + '\t' + log::fixed(best.log_probability, 6) + '\t';
      std::string text = best.text;
      std::replace(text.begin(), text.end(), '\n', ' ');  // one line in, one line out
      print(row + text + '\n');
    }
  }

 private:
  bool scores_, nbest_;
};

/// The first model's configuration says how to decode; a line must fit into every model.
evaluate::Translator translator_of(const TranslateArguments& arguments) {
  std::vector<std::unique_ptr<PackedTransformer>> models;
  std::optional<io::LoadedModel> first;
  evaluate::TranslateOptions options;
  for (const std::string& path : arguments.models) {
    io::LoadedModel loaded = io::load_model(path);
    models.push_back(model::pack(loaded.model));
    if (!first) {
      first = std::move(loaded);
      options = options_of(arguments, first->config);
    } else {
      io::require_same_subwords(first->path, loaded.path, "translate with");
      options.max_length = std::min(options.max_length, loaded.config.data.max_length);
    }
  }
  return {ensemble_of(std::move(models)), first->vocabularies, std::move(options)};
}

int translate(const TranslateArguments& arguments) {
  if (arguments.threads > 0) at::set_num_threads(int(arguments.threads));
  evaluate::Translator translator = translator_of(arguments);
  catch_stop_signals();
  const SafePoint safe_point = stop_signal_safe_point();
  LineReader reader(STDIN_FILENO, safe_point);
  const Printer printer(arguments);
  const int64_t chunk = isatty(STDIN_FILENO) == 1 ? 1 : kChunkLines;
  int64_t number = 1;
  while (true) {
    const std::vector<std::string> lines = read_lines(reader, chunk, number);
    safe_point();
    if (lines.empty()) break;
    for (const evaluate::TranslatedLine& line : translator.translate(lines, safe_point, number)) {
      printer.show(line, number++);
    }
    flush_output();
  }
  return kExitOk;
}

}  // namespace

void add_translate(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<TranslateArguments>();
  CLI::App* command = app.add_subcommand(
      "translate", "Translate standard input, a line at a time, to standard output");
  command
      ->add_option("models", arguments->models,
                   "a run's folder or one of its checkpoints; of several, the mean of their "
                   "probabilities translates")
      ->required();
  command->add_option("--beam", arguments->beam, "hypotheses kept alive; 1 = greedy")
      ->check(CLI::Range(1, 1000));
  command
      ->add_option("--length-penalty", arguments->length_penalty,
                   "exponent of the length that scores are divided by")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--nbest", arguments->nbest,
                   "translations of each line; rows become line, rank, text")
      ->check(CLI::PositiveNumber);
  command
      ->add_option("--stop-after", arguments->stop_after,
                   "end a sentence after so many finished hypotheses; 0 = when none can improve")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--scores", arguments->scores,
                    "put score and log-probability (natural log) before each translation");
  command->add_option("--prefix", arguments->prefix, "text that every translation starts with");
  command
      ->add_option("--long-lines", arguments->long_lines,
                   "lines over the model's limit: split or refuse")
      ->check(CLI::IsMember({"split", "refuse"}));
  command
      ->add_option("--batch-tokens", arguments->batch_tokens, "source pieces translated together")
      ->check(CLI::PositiveNumber);
  command->add_option("--threads", arguments->threads, "CPU threads; default: all cores")
      ->check(CLI::Range(1, 4096));
  command->callback(
      [arguments, &action] { action = [arguments] { return translate(*arguments); }; });
}

}  // namespace headwise::cli
