// headwise shapes: multi-head attention step by step, as it really runs.
#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/analysis/shapes.h"
#include "src/cli/command.h"
#include "src/cli/output.h"
#include "src/cli/table.h"
#include "src/config/error.h"

namespace headwise::cli {
namespace {

using analysis::Memory;
using analysis::ShapeStep;

struct ShapesArguments {
  int64_t batch = 32, tokens = 128, source_tokens = 0;  // 0: self-attention
  nn::MultiHeadAttentionOptions shape;
  bool json = false;
};

std::string list_text(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t number : numbers) text += text_of(text.empty() ? "" : ",", number);
  return text.empty() ? "-" : "(" + text + ")";
}

/// 1234567 as 1,234,567.
std::string grouped(int64_t number) {
  std::string text = std::to_string(number);
  for (int64_t at = int64_t(text.size()) - 3; at > 0; at -= 3) text.insert(size_t(at), ",");
  return text;
}

std::string memory_text(const ShapeStep& step) {
  switch (step.memory) {
    case Memory::kInput:
      return "input";
    case Memory::kNew:
      return "new";
    case Memory::kView:
      return "that of \"" + step.shares_with + '"';
    case Memory::kNever:
      break;
  }
  return "never stored";
}

void print_table(const std::vector<ShapeStep>& steps) {
  std::vector<std::vector<std::string>> rows = {
      {"step", "sizes", "strides", "bytes", "contiguous", "copied", "allocated", "memory"}};
  for (const ShapeStep& step : steps) {
    const bool exists = step.memory != Memory::kNever;
    rows.push_back({step.name, list_text(step.sizes), list_text(step.strides), grouped(step.bytes),
                    !exists           ? "-"
                    : step.contiguous ? "yes"
                                      : "no",
                    !exists       ? "-"
                    : step.copied ? "yes"
                                  : "no",
                    exists ? grouped(step.allocated) : "-", memory_text(step)});
  }
  print(table(rows, {3, 6}));
}

nlohmann::ordered_json json_of(const ShapeStep& step) {
  static constexpr const char* kMemory[] = {"input", "new", "view", "never stored"};
  nlohmann::ordered_json json = {{"step", step.name},   {"op", step.op},
                                 {"sizes", step.sizes}, {"strides", step.strides},
                                 {"bytes", step.bytes}, {"memory", kMemory[int(step.memory)]}};
  if (step.memory == Memory::kNever) return json;
  json["contiguous"] = step.contiguous;
  json["copied"] = step.copied;
  json["allocated"] = step.allocated;
  if (step.memory == Memory::kView) json["shares_with"] = step.shares_with;
  return json;
}

int shapes(const ShapesArguments& arguments) {
  const nn::MultiHeadAttention module(arguments.shape);
  const int64_t width = module->options.embed_dim;
  const at::Tensor query = at::randn({arguments.batch, arguments.tokens, width});
  const at::Tensor source = arguments.source_tokens == 0
                                ? query
                                : at::randn({arguments.batch, arguments.source_tokens, width});
  const std::vector<ShapeStep> steps = analysis::attention_steps(module, query, source);
  if (!arguments.json) {
    print_table(steps);
    return kExitOk;
  }
  nlohmann::ordered_json json;
  json["batch"] = arguments.batch;
  json["tokens"] = arguments.tokens;
  json["source_tokens"] = arguments.source_tokens == 0 ? arguments.tokens : arguments.source_tokens;
  json["width"] = width;
  json["heads"] = module->options.num_heads;
  json["kv_heads"] = module->options.num_kv_heads;
  json["head_width"] = module->options.head_dim;
  for (const ShapeStep& step : steps) json["steps"].push_back(json_of(step));
  print(json.dump(2) + "\n");
  return kExitOk;
}

}  // namespace

void add_shapes(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<ShapesArguments>();
  arguments->shape.embed_dim = 512;
  arguments->shape.num_heads = 8;
  CLI::App* command = app.add_subcommand(
      "shapes",
      "Run multi-head attention once and print every step: sizes, strides, bytes, copies");
  const auto number = [&](const char* name, int64_t& value, const char* help) {
    return command->add_option(name, value, help)->check(CLI::PositiveNumber);
  };
  number("--batch", arguments->batch, "sequences")->capture_default_str();
  number("--tokens", arguments->tokens, "tokens of a sequence")->capture_default_str();
  number("--source-tokens", arguments->source_tokens,
         "tokens of the sequence attended to: cross-attention");
  number("--width", arguments->shape.embed_dim, "model width")->capture_default_str();
  number("--heads", arguments->shape.num_heads, "query heads")->capture_default_str();
  number("--kv-heads", arguments->shape.num_kv_heads,
         "key/value heads (default: as many as heads)");
  number("--head-width", arguments->shape.head_dim, "width of a head (default: width / heads)");
  command->add_flag("--json", arguments->json, "the same as JSON");
  command->callback([arguments, &action] { action = [arguments] { return shapes(*arguments); }; });
}

}  // namespace headwise::cli
