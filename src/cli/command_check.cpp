// headwise check SOURCE TARGET | --config FILE: what is odd about a corpus, and what forbids
// training.
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/cli/check_report.h"
#include "src/cli/command.h"
#include "src/cli/output.h"
#include "src/config/error.h"
#include "src/config/load.h"
#include "src/data/corpus.h"
#include "src/data/corpus_check.h"
#include "src/data/text_file.h"

namespace headwise::cli {
namespace {

struct CheckArguments {
  std::string source, target;
  std::string config;
  std::vector<std::string> overrides;
  int64_t max_characters = data::CheckOptions{}.max_characters;
  bool quick = false, json = false;
};

/// The texts of a corpus and its report.
struct Corpus {
  std::string source_path, target_path;
  data::TextFile source, target;
  CheckedCorpus checked;

  Corpus(std::string name, const std::string& source_file, const std::string& target_file)
      : source_path(source_file),
        target_path(target_file),
        source(data::read_lines(source_file)),
        target(data::read_lines(target_file)) {
    checked.name = std::move(name);
  }

  void check(const data::CheckOptions& options) {
    checked.report = data::check_corpus({source_path, source}, {target_path, target}, options);
    checked.limits = options.limits;
    checked.pieces = options.subword != nullptr;
    checked.fatal = data::fatal(checked.report);
  }
};

/// The models that training would use. If they cannot be had, the reason is fatal for the corpus.
std::optional<data::Vocabularies> vocabularies(const config::SubwordConfig& subword,
                                               Corpus& training) {
  try {
    return data::make_vocabularies(
        subword, data::make_parallel(training.source.lines, training.target.lines,
                                     text_of(training.source_path, ", ", training.target_path)));
  } catch (const UserError& error) {
    training.checked.fatal.emplace_back(error.what());
    return std::nullopt;
  }
}

/// The first corpus is the training text. Pieces are counted only when nothing in it is fatal.
void check_all(std::vector<Corpus>& corpora, const config::Config* config,
               const CheckArguments& arguments) {
  data::CheckOptions options;
  options.max_characters = arguments.max_characters;
  if (config != nullptr) {
    options.limits = {config->data.max_length, config->data.max_length_ratio};
  }
  for (Corpus& corpus : corpora) corpus.check(options);
  if (config == nullptr || arguments.quick || !corpora.front().checked.fatal.empty()) return;
  const auto models = vocabularies(config->subword, corpora.front());
  if (!models) return;
  options.subword = &*models;
  for (Corpus& corpus : corpora) corpus.check(options);
}

void print_report(const std::vector<Corpus>& corpora, bool json) {
  using nlohmann::ordered_json;
  ordered_json all = ordered_json::array();
  for (const Corpus& corpus : corpora) {
    if (json) {
      all.push_back(json_of_check(corpus.checked));
    } else {
      print(text_of_check(corpus.checked));
    }
  }
  // File names may be any bytes; JSON must be UTF-8.
  if (json) print(all.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n");
}

int check(const CheckArguments& arguments) {
  std::optional<config::Config> config;
  std::vector<Corpus> corpora;
  if (arguments.config.empty()) {
    corpora.emplace_back("", arguments.source, arguments.target);
  } else {
    config = config::load(arguments.config, arguments.overrides).config;
    const config::DataConfig& data = config->data;
    const auto add = [&](const char* name, const std::string& source, const std::string& target) {
      corpora.emplace_back(name, data::resolve_path(data, source).string(),
                           data::resolve_path(data, target).string());
    };
    if (data.kind == config::DataKind::kEmbedded) {
      print("data.kind = \"embedded\": the text is made by Headwise, there is no file to check\n");
      return kExitOk;
    }
    add("training", data.train_source, data.train_target);
    if (!data.valid_source.empty()) add("validation", data.valid_source, data.valid_target);
  }
  check_all(corpora, config ? &*config : nullptr, arguments);
  print_report(corpora, arguments.json);
  for (const Corpus& corpus : corpora) {
    if (!corpus.checked.fatal.empty()) return kExitFailure;
  }
  return kExitOk;
}

}  // namespace

void add_check(CLI::App& app, Action& action) {
  const auto arguments = std::make_shared<CheckArguments>();
  CLI::App* command = app.add_subcommand(
      "check",
      "Report what is odd about a parallel corpus; exit code 1 if training would refuse it");
  auto* source = command->add_option("source", arguments->source, "text, plain or gzip");
  auto* target = command->add_option("target", arguments->target, "its translation, line by line");
  auto* config = command->add_option("--config", arguments->config,
                                     "check the training and validation files of a configuration");
  source->needs(target)->excludes(config);
  target->excludes(config);
  command->add_option("--set", arguments->overrides, "section.key=value, in place of the file's")
      ->needs(config);
  command
      ->add_flag("--quick", arguments->quick,
                 "with --config: count no pieces (making a subword model takes time)")
      ->needs(config);
  command->add_option("--max-characters", arguments->max_characters, "report lines that are longer")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "all findings as JSON");
  command->callback([arguments, &action] {
    if (arguments->source.empty() && arguments->config.empty()) {
      throw CLI::ValidationError("check", "give SOURCE and TARGET, or --config FILE");
    }
    action = [arguments] { return check(*arguments); };
  });
}

}  // namespace headwise::cli
