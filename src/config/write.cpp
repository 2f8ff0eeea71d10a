// The table read the other way: values and help as TOML text.
#include <string>
#include <string_view>

#include "src/config/format.h"
#include "src/config/load.h"
#include "src/config/schema.h"

namespace headwise::config {
namespace {

/// An origin holds a file's name, and that may hold anything; a comment may not.
std::string comment_of(const std::string& origin) {
  const std::string escaped = quoted(origin);
  return escaped.substr(1, escaped.size() - 2);
}

}  // namespace

std::string to_toml(const Resolved& resolved) {
  std::string text;
  for (const Section& section : schema()) {
    text += (text.empty() ? "[" : "\n[") + section.name + "]\n";
    for (const Key& key : section.keys) {
      const auto origin = resolved.origins.find(key.name);
      text += key.member() + " = " + format(key.get(resolved.config));
      if (origin != resolved.origins.end()) text += "  # " + comment_of(origin->second);
      text += "\n";
    }
  }
  return text;
}

std::string reference() {
  const Config defaults;
  std::string text = "# Every key, with its default. A file holds only what differs from it.\n";
  for (const Section& section : schema()) {
    text += "\n[" + section.name + "]  # " + section.help + "\n";
    for (const Key& key : section.keys) {
      text += "# " + key.help + "\n" + key.member() + " = " + format(key.get(defaults));
      if (!key.allowed().empty()) text += "  # " + key.allowed();
      text += "\n";
    }
  }
  return text;
}

std::vector<Change> differences(const Config& before, const Config& after) {
  std::vector<Change> changes;
  for (const Section& section : schema()) {
    for (const Key& key : section.keys) {
      const Value old_value = key.get(before);
      const Value new_value = key.get(after);
      if (old_value != new_value) {
        changes.push_back({key.name, format(old_value), format(new_value)});
      }
    }
  }
  return changes;
}

}  // namespace headwise::config
