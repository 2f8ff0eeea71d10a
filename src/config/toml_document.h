// TOML text as a flat list of keys with their lines; the only place that knows toml++.
#pragma once

#include <string>
#include <vector>

#include "src/config/schema.h"

namespace headwise::config {

struct Entry {
  std::string name;       // dotted: "section.key"
  int64_t line = 0;       // 1-based
  Value value;            // empty for what no key takes: dates, mixed lists, empty tables
  std::string kind;       // "a text", "a whole number", …
  bool is_table = false;  // a table with nothing in it
};

/// What is wrong with the text, and where.
struct SyntaxError {
  int64_t line = 0;
  std::string message;
};

struct Document {
  std::vector<Entry> entries;       // in the order of their lines
  std::vector<SyntaxError> errors;  // at most one: nothing can be read beyond it
};

Document read_toml(const std::string& text);

}  // namespace headwise::config
