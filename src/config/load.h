// TOML file + command-line overrides -> Config, every mistake reported at once.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "src/config/config.h"

namespace headwise::config {

/// Where each value came from, by "section.key": "default", "FILE:LINE" or "--set".
using Origins = std::map<std::string, std::string>;

struct Resolved {
  Config config;
  Origins origins;
};

/// Reads `file` (TOML), applies `overrides` ("section.key=value", value in TOML syntax, a bare word
/// is taken as a string) and checks every range and every relation between keys.
/// @throws UserError (exit code 2) listing all unknown keys (with the nearest known one), wrong
/// types
///   and bad values, each with file and line.
Resolved load(const std::filesystem::path& file, const std::vector<std::string>& overrides);

/// The same from TOML text; `name` stands for the file in messages.
Resolved parse(const std::string& text, const std::string& name,
               const std::vector<std::string>& overrides);

/// TOML text of every key with its origin as a comment; parse(to_toml(r)) gives the same Config.
std::string to_toml(const Resolved& resolved);

/// Every key with its default and a one-line explanation, as a TOML file (`headwise config`).
std::string reference();

/// The keys whose values differ, as "section.key: old -> new".
struct Change {
  std::string key, before, after;
};
std::vector<Change> differences(const Config& before, const Config& after);

}  // namespace headwise::config
