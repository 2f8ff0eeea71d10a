// Shared by the tests of this folder: a small valid file, and the message of a refused one.
#pragma once

#include <string>
#include <vector>

#include "src/config/error.h"
#include "src/config/load.h"

namespace headwise::config {

/// What every valid file needs at least.
inline const std::vector<std::string> kEnough = {"data.kind=embedded", "train.max_steps=10"};

/// The message of the UserError that `text` ends in (exit code 2), or "" when it is accepted.
inline std::string refusal(const std::string& text, std::vector<std::string> overrides = kEnough) {
  try {
    parse(text, "run.toml", overrides);
    return "";
  } catch (const UserError& error) {
    return error.exit_code() == kExitUsage ? error.what() : "wrong exit code";
  }
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

inline size_t line_count(const std::string& text) {
  size_t lines = text.empty() ? 0 : 1;
  for (const char c : text) lines += c == '\n';
  return lines;
}

}  // namespace headwise::config
