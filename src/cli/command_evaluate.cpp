// headwise evaluate HYPOTHESES REFERENCES: BLEU and chrF of a translation.
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "src/cli/command.h"
#include "src/cli/output.h"
#include "src/config/error.h"
#include "src/data/text_file.h"
#include "src/log/log.h"
#include "src/metrics/corpus_scores.h"

namespace headwise::cli {
namespace {

struct EvaluateArguments {
  std::string hypotheses, references;
  bool lowercase = false, json = false;
  int samples = 0;  // 0: no interval
  uint64_t seed = 12345;
};

struct Scores {
  metrics::Bleu bleu;
  metrics::Chrf chrf;
  std::optional<metrics::Interval> bleu_interval, chrf_interval;
};

struct Pairs {
  std::vector<std::string> hypotheses, references;
};

Pairs read_pairs(const EvaluateArguments& arguments) {
  const bool from_pipe = arguments.hypotheses == "-";
  Pairs pairs{data::read_lines(from_pipe ? "/dev/stdin" : arguments.hypotheses).lines,
              data::read_lines(arguments.references).lines};
  const std::string name = from_pipe ? "standard input" : arguments.hypotheses;
  if (pairs.hypotheses.size() != pairs.references.size()) {
    throw UserError(text_of(name, " has ", pairs.hypotheses.size(), " lines, ",
                            arguments.references, " has ", pairs.references.size(),
                            "; each hypothesis needs the reference on the same line"));
  }
  if (pairs.hypotheses.empty()) {
    throw UserError(
        text_of(name, " and ", arguments.references, " have no lines; at least one is needed"));
  }
  return pairs;
}

Scores score(const Pairs& pairs, const EvaluateArguments& arguments, bool lowercase) {
  const metrics::Options options{.lowercase = lowercase};
  Scores scores{.bleu = metrics::bleu(pairs.hypotheses, pairs.references, options),
                .chrf = metrics::chrf(pairs.hypotheses, pairs.references, options),
                .bleu_interval = {},
                .chrf_interval = {}};
  if (arguments.samples == 0) return scores;
  scores.bleu_interval = metrics::bleu_interval(pairs.hypotheses, pairs.references, options,
                                                arguments.samples, arguments.seed);
  scores.chrf_interval = metrics::chrf_interval(pairs.hypotheses, pairs.references, options,
                                                arguments.samples, arguments.seed);
  for (std::string* signature : {&scores.bleu.signature, &scores.chrf.signature}) {
    *signature = metrics::signature_with_bootstrap(*signature, arguments.samples, arguments.seed);
  }
  return scores;
}

double length_ratio(const metrics::Bleu& bleu) {
  return bleu.reference_length == 0
             ? 0
             : double(bleu.hypothesis_length) / double(bleu.reference_length);
}

std::string interval_text(const std::optional<metrics::Interval>& interval) {
  if (!interval) return "";
  return " (μ = " + log::fixed(interval->mean, 2) + " ± " + log::fixed(interval->half_width, 2) +
         ")";
}

/// The two lines sacreBLEU would print.
void print_text(const Scores& scores) {
  const metrics::Bleu& bleu = scores.bleu;
  const auto& p = bleu.precisions;
  print(text_of("BLEU|", bleu.signature, " = ", log::fixed(bleu.score, 2),
                interval_text(scores.bleu_interval), " ", log::fixed(p[0], 1), "/",
                log::fixed(p[1], 1), "/", log::fixed(p[2], 1), "/", log::fixed(p[3], 1)));
  print(text_of(" (BP = ", log::fixed(bleu.brevity_penalty, 3), " ratio = ",
                log::fixed(length_ratio(bleu), 3), " hyp_len = ", bleu.hypothesis_length,
                " ref_len = ", bleu.reference_length, ")\n"));
  print(text_of("chrF2|", scores.chrf.signature, " = ", log::fixed(scores.chrf.score, 2),
                interval_text(scores.chrf_interval), "\n"));
}

nlohmann::ordered_json to_json(const Scores& scores) {
  const metrics::Bleu& bleu = scores.bleu;
  nlohmann::ordered_json json;
  json["bleu"] = {{"score", bleu.score},
                  {"precisions", bleu.precisions},
                  {"brevity_penalty", bleu.brevity_penalty},
                  {"hypothesis_length", bleu.hypothesis_length},
                  {"reference_length", bleu.reference_length}};
  json["chrf"] = {{"score", scores.chrf.score}};
  const auto finish = [](nlohmann::ordered_json& score, const std::string& signature,
                         const std::optional<metrics::Interval>& interval) {
    if (interval) score["mean"] = interval->mean, score["half_width"] = interval->half_width;
    score["signature"] = signature;
  };
  finish(json["bleu"], bleu.signature, scores.bleu_interval);
  finish(json["chrf"], scores.chrf.signature, scores.chrf_interval);
  return json;
}

int evaluate(const EvaluateArguments& arguments) {
  const Pairs pairs = read_pairs(arguments);
  nlohmann::ordered_json json;
  for (const bool lowercase : {false, true}) {
    if (arguments.lowercase && !lowercase) continue;
    const Scores scores = score(pairs, arguments, lowercase);
    if (arguments.json) {
      json[lowercase ? "lowercase" : "cased"] = to_json(scores);
    } else {
      print_text(scores);
    }
  }
  if (arguments.json) print(json.dump(2) + "\n");
  return kExitOk;
}

}  // namespace

void add_evaluate(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<EvaluateArguments>();
  CLI::App* command = app.add_subcommand(
      "evaluate", "Print BLEU and chrF of a translation, cased and lower-cased, as sacreBLEU does");
  command->add_option("hypotheses", arguments->hypotheses, "translation, plain or gzip; - is stdin")
      ->required();
  command->add_option("references", arguments->references, "reference, line by line")->required();
  command->add_flag("--lowercase", arguments->lowercase, "only the lower-cased scores");
  command->add_flag("--json", arguments->json, "all digits, as JSON");
  auto* samples = command->add_option("--bootstrap", arguments->samples,
                                      "add 95 % intervals of this many samples");
  samples->check(CLI::Range(2, 1'000'000));
  command->add_option("--seed", arguments->seed, "seed of the samples")
      ->capture_default_str()
      ->needs(samples);
  command->callback(
      [arguments, &action] { action = [arguments] { return evaluate(*arguments); }; });
}

}  // namespace headwise::cli
