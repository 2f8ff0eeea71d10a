#include "src/config/toml_document.h"

#include <toml++/toml.h>
#include <algorithm>
#include <string_view>

#include "src/config/format.h"

namespace headwise::config {
namespace {

/// A key as TOML writes it: bare, or quoted when it holds anything but letters, digits, _ and -.
std::string written(std::string_view key) {
  const bool bare = !key.empty() && std::all_of(key.begin(), key.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  });
  return bare ? std::string(key) : quoted(std::string(key));
}

Value list_of(const toml::array& array) {
  std::vector<int64_t> numbers;
  for (const toml::node& node : array) {
    if (!node.is_integer()) return {};
    numbers.push_back(node.as_integer()->get());
  }
  return numbers;
}

Entry entry_of(const toml::node& node) {
  Entry entry;
  if (const auto* flag = node.as_boolean()) {
    entry.value = flag->get();
    entry.kind = "a truth value";
  } else if (const auto* integer = node.as_integer()) {
    entry.value = integer->get();
    entry.kind = "a whole number";
  } else if (const auto* real = node.as_floating_point()) {
    entry.value = real->get();
    entry.kind = "a decimal number";
  } else if (const auto* text = node.as_string()) {
    entry.value = text->get();
    entry.kind = "a text";
  } else if (const auto* array = node.as_array()) {
    entry.value = list_of(*array);
    entry.kind = entry.value.index() == 0 ? "a list of other things than whole numbers" : "a list";
  } else {
    entry.kind = node.is_table() ? "a table" : "a date or time";
  }
  return entry;
}

void flatten(const toml::table& table, const std::string& prefix, std::vector<Entry>& entries) {
  for (const auto& [key, node] : table) {
    const std::string name = prefix + written(key.str());
    const toml::table* inner = node.as_table();
    if (inner != nullptr && !inner->empty()) {
      flatten(*inner, name + ".", entries);
      continue;
    }
    Entry entry = entry_of(node);
    entry.name = name;
    entry.line = static_cast<int64_t>(key.source().begin.line);
    entry.is_table = inner != nullptr;
    entries.push_back(std::move(entry));
  }
}

}  // namespace

Document read_toml(const std::string& text) {
  Document document;
  try {
    flatten(toml::parse(text), "", document.entries);
  } catch (const toml::parse_error& error) {
    document.errors.push_back(
        {static_cast<int64_t>(error.source().begin.line), std::string(error.description())});
  }
  std::stable_sort(document.entries.begin(), document.entries.end(),
                   [](const Entry& a, const Entry& b) { return a.line < b.line; });
  return document;
}

}  // namespace headwise::config
