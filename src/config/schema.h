// The one table of everything a run can be told: parsing, overrides, checks and help all read it.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "src/config/config.h"

namespace headwise::config {

/// A value as TOML knows it; words of an enum are strings. Empty: something no key takes (a date
/// …).
using Value =
    std::variant<std::monostate, bool, int64_t, double, std::string, std::vector<int64_t>>;

enum class Type { kBool, kInteger, kReal, kString, kWord, kHeads };

/// Numbers a key takes: `low` to `high`, each end in or out, and 0 besides when it means "off".
struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool low_open = false, high_open = false;
  bool or_zero = false;

  bool contains(double number) const;
  /// "at least 1", "at least 0 and below 1", … ; empty when every number is right.
  std::string text() const;
};

/// One key: where it lives in Config and what it takes.
struct Key {
  std::string name;  // "section.key"
  Type type = Type::kString;
  Range range = {};                     // numbers, and each entry of a head list
  std::vector<std::string> words = {};  // kWord: what is allowed
  std::string help = {};                // one line
  std::function<Value(const Config&)> get = {};
  std::function<void(Config&, const Value&)> set = {};  // takes what get gives; nothing is checked

  std::string section() const { return name.substr(0, name.find('.')); }
  std::string member() const { return name.substr(name.find('.') + 1); }
  /// Its words or its range: "at least 0 and below 1"; empty when all values of its type are right.
  std::string allowed() const;
  /// What the key takes, type and all: "a whole number, at least 1".
  std::string needed() const;
};

struct Section {
  std::string name;
  std::string help;
  std::vector<Key> keys;
};

/// Every section and key, in the order in which files are written.
const std::vector<Section>& schema();

/// The key of that name, or nullptr.
const Key* find_key(const std::string& name);

/// The known key nearest to a mistyped one: by edits, and by the same key in another section.
const Key& nearest_key(const std::string& name);
const Section& nearest_section(const std::string& name);

}  // namespace headwise::config
