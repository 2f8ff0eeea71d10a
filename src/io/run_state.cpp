#include "src/io/run_state.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "src/config/error.h"

namespace headwise::io {
namespace {

using nlohmann::json;

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
          {"corpus", s.corpus},
          {"build", s.machine.build},
          {"cpu", s.machine.cpu},
          {"threads", s.machine.threads}};
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
  j.at("corpus").get_to(s.corpus);
  j.at("build").get_to(s.machine.build);
  j.at("cpu").get_to(s.machine.cpu);
  j.at("threads").get_to(s.machine.threads);
  return s;
}

}  // namespace

void write_state(const std::filesystem::path& path, const RunState& state) {
  std::ofstream out(path);
  out << to_json(state).dump(2) << '\n';
  out.close();
  if (!out) throw UserError("cannot write " + path.string());
}

RunState read_state(const std::filesystem::path& path) {
  std::ifstream in(path);
  try {
    return from_json(json::parse(in));
  } catch (const json::exception& error) {
    throw UserError(path.string() + " is not the state of a run: " + error.what());
  }
}

}  // namespace headwise::io
