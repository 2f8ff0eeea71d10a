// headwise check-masks [MODEL]: do masks hide what they should, in a module or in a trained model?
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/analysis/model_masks.h"
#include "src/cli/command.h"
#include "src/cli/output.h"
#include "src/cli/table.h"
#include "src/config/error.h"
#include "src/io/model_io.h"

namespace headwise::cli {
namespace {

using analysis::MaskCheck;
using analysis::MaskReport;

struct MaskArguments {
  std::string model;
  nn::MultiHeadAttentionOptions shape;
  analysis::MaskTrial trial;
  bool json = false;
};

std::string result_text(const MaskReport& report, const char* name) {
  for (const MaskCheck& check : report.checks) {
    if (check.name == name) return check.passed() ? "ok" : "FAILED";
  }
  return "-";  // has no meaning here
}

void print_text(const std::vector<MaskReport>& reports, const std::vector<std::string>& failed) {
  std::vector<std::vector<std::string>> meanings;
  std::vector<std::vector<std::string>> rows = {{"module", "form"}};
  for (const auto& [name, meaning] : analysis::mask_check_meanings()) {
    rows[0].push_back(name);
    meanings.push_back({name, meaning});
  }
  size_t checks = 0;
  for (const MaskReport& report : reports) {
    checks += report.checks.size();
    rows.push_back({report.module, report.form});
    for (const auto& check : analysis::mask_check_meanings()) {
      rows.back().push_back(result_text(report, check.name));
    }
  }
  print(table(meanings) + "\n" + table(rows) + "\n");
  for (const std::string& line : failed) print("FAILED " + line + "\n");
  print(text_of(checks - failed.size(), " of ", checks, " checks passed\n"));
}

nlohmann::ordered_json json_of(const std::vector<MaskReport>& reports) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const MaskReport& report : reports) {
    nlohmann::ordered_json checks;
    for (const MaskCheck& check : report.checks) {
      checks[check.name] = {{"passed", check.passed()}};
      if (!check.passed()) checks[check.name]["found"] = check.found;
    }
    json.push_back({{"module", report.module}, {"form", report.form}, {"checks", checks}});
  }
  return json;
}

std::vector<MaskReport> reports_of(const MaskArguments& arguments) {
  if (!arguments.model.empty()) {
    return analysis::check_model_masks(io::load_model(arguments.model).model, arguments.trial);
  }
  return analysis::check_module_masks("module", nn::MultiHeadAttention(arguments.shape),
                                      arguments.trial);
}

int check_masks(const MaskArguments& arguments) {
  const std::vector<MaskReport> reports = reports_of(arguments);
  const std::vector<std::string> failed = analysis::failures(reports);
  if (arguments.json) {
    print(json_of(reports).dump(2) + "\n");
  } else {
    print_text(reports, failed);
  }
  return failed.empty() ? kExitOk : kExitFailure;
}

}  // namespace

void add_check_masks(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<MaskArguments>();
  arguments->shape.embed_dim = 64;
  arguments->shape.num_heads = 4;
  CLI::App* command = app.add_subcommand(
      "check-masks",
      "Try the masks of a module, or of every attention in a model; exit code 1 if one is wrong");
  auto* model = command->add_option("model", arguments->model,
                                    "a run's folder or one of its checkpoints (default: a new "
                                    "module of the sizes below)");
  const auto number = [&](const char* name, int64_t& value, const char* help) {
    return command->add_option(name, value, help)->check(CLI::PositiveNumber);
  };
  number("--width", arguments->shape.embed_dim, "model width")
      ->capture_default_str()
      ->excludes(model);
  number("--heads", arguments->shape.num_heads, "query heads")
      ->capture_default_str()
      ->excludes(model);
  number("--kv-heads", arguments->shape.num_kv_heads, "key/value heads (default: as many as heads)")
      ->excludes(model);
  number("--head-width", arguments->shape.head_dim, "width of a head (default: width / heads)")
      ->excludes(model);
  command->add_flag("--rotary", arguments->shape.rotary, "rotary positions")->excludes(model);
  // Shorter sequences would leave some checks with nothing to look at.
  const CLI::Range tokens(4, 4096);
  command->add_option("--tokens", arguments->trial.queries, "tokens of a sequence")
      ->check(tokens)
      ->capture_default_str();
  command
      ->add_option("--source-tokens", arguments->trial.keys, "tokens of the sequence attended to")
      ->check(tokens)
      ->capture_default_str();
  command->add_option("--seed", arguments->trial.seed, "seed of inputs and masks")
      ->capture_default_str();
  command->add_flag("--json", arguments->json, "the same as JSON");
  command->callback(
      [arguments, &action] { action = [arguments] { return check_masks(*arguments); }; });
}

}  // namespace headwise::cli
