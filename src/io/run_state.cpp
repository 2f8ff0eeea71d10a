#include "src/io/run_state.h"

#include <nlohmann/json.hpp>

#include "src/config/error.h"
#include "src/io/file.h"

namespace headwise::io {
namespace {

using nlohmann::json;

json to_json(const UpdateSums& s) {
  return {{"smoothed", s.smoothed},           {"nll", s.nll},       {"labels", s.labels},
          {"source_tokens", s.source_tokens}, {"padded", s.padded}, {"seconds", s.seconds}};
}

json to_json(const RunState& s) {
  return {{"step", s.step},
          {"micro_batches", s.micro_batches},
          {"epoch", s.position.epoch},
          {"sentence", s.position.sentence},
          {"source_tokens", s.source_tokens},
          {"target_tokens", s.target_tokens},
          {"seconds", s.seconds},
          {"skipped_updates", s.skipped_updates},
          {"consecutive_skipped", s.consecutive_skipped},
          {"last_validated", s.last_validated},
          {"best_step", s.best_step},
          {"best_value", s.best_value},
          {"validations_without_improvement", s.validations_without_improvement},
          {"unreported", to_json(s.unreported)},
          {"precision", s.bfloat16 ? "bf16" : "fp32"},
          {"corpus", s.corpus},
          {"build", s.machine.build},
          {"cpu", s.machine.cpu},
          {"threads", s.machine.threads}};
}

UpdateSums sums_from_json(const json& j) {
  UpdateSums s;
  j.at("smoothed").get_to(s.smoothed);
  j.at("nll").get_to(s.nll);
  j.at("labels").get_to(s.labels);
  j.at("source_tokens").get_to(s.source_tokens);
  j.at("padded").get_to(s.padded);
  j.at("seconds").get_to(s.seconds);
  return s;
}

RunState from_json(const json& j) {
  RunState s;
  j.at("step").get_to(s.step);
  j.at("micro_batches").get_to(s.micro_batches);
  j.at("epoch").get_to(s.position.epoch);
  j.at("sentence").get_to(s.position.sentence);
  j.at("source_tokens").get_to(s.source_tokens);
  j.at("target_tokens").get_to(s.target_tokens);
  j.at("seconds").get_to(s.seconds);
  j.at("skipped_updates").get_to(s.skipped_updates);
  j.at("consecutive_skipped").get_to(s.consecutive_skipped);
  j.at("last_validated").get_to(s.last_validated);
  j.at("best_step").get_to(s.best_step);
  j.at("best_value").get_to(s.best_value);
  j.at("validations_without_improvement").get_to(s.validations_without_improvement);
  s.unreported = sums_from_json(j.at("unreported"));
  s.bfloat16 = j.value("precision", "fp32") == "bf16";  // older runs knew no other
  j.at("corpus").get_to(s.corpus);
  j.at("build").get_to(s.machine.build);
  j.at("cpu").get_to(s.machine.cpu);
  j.at("threads").get_to(s.machine.threads);
  return s;
}

}  // namespace

void write_state(const std::filesystem::path& path, const RunState& state) {
  write_file(path, to_json(state).dump(2) + '\n');
}

RunState read_state(const std::filesystem::path& path) {
  try {
    return from_json(json::parse(read_file(path)));
  } catch (const json::exception& error) {
    throw UserError(path.string() + " is not the state of a run: " + error.what());
  }
}

}  // namespace headwise::io
