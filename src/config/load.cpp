#include "src/config/load.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "src/config/error.h"
#include "src/config/format.h"
#include "src/config/relations.h"
#include "src/config/schema.h"
#include "src/config/toml_document.h"

namespace headwise::config {
namespace {

constexpr const char* kDefault = "default";  // origins, besides FILE:LINE
constexpr const char* kOverride = "--set";

/// Fills a Config key by key and remembers every mistake on the way.
class Resolver {
 public:
  explicit Resolver(std::string name) : name_(std::move(name)) {
    for (const Section& section : schema()) {
      for (const Key& key : section.keys) resolved_.origins[key.name] = kDefault;
    }
  }

  void read(const std::string& text);
  void override_with(const std::string& argument);
  /// Relations are checked last, and only between keys that are right by themselves.
  Resolved finish();

 private:
  void mistake(const std::string& where, const std::string& text) {
    mistakes_.push_back(where + ": " + text);
  }
  void apply(const Entry& entry, const std::string& where);
  void unknown(const Entry& entry, const std::string& where);

  const std::string name_;  // of the file
  Resolved resolved_;
  std::vector<std::string> mistakes_;
  std::set<std::string> doubtful_;  // keys with a mistake of their own
  bool readable_ = true;            // syntax
};

/// A value for a message: as TOML, cut when long.
std::string found_text(const Entry& entry) {
  constexpr size_t kLongest = 60;
  std::string text = format(entry.value);
  if (text.size() > kLongest) {
    size_t end = kLongest;
    while (end > 0 && (text[end] & 0xC0) == 0x80) --end;  // never inside a character
    text = text.substr(0, end) + "…";
  }
  return text.empty() ? entry.kind : text + " (" + entry.kind + ")";
}

/// The value as the key's type, or nothing when it has another type or lies outside the range.
std::optional<Value> fitting(const Key& key, const Value& value) {
  const auto* integer = std::get_if<int64_t>(&value);
  const auto in_range = [&](auto number) {
    return key.range.contains(static_cast<double>(number));
  };
  switch (key.type) {
    case Type::kBool:
      if (std::holds_alternative<bool>(value)) return value;
      break;
    case Type::kInteger:
      if (integer != nullptr && in_range(*integer)) return value;
      break;
    case Type::kReal: {
      const Value real = integer != nullptr ? Value(static_cast<double>(*integer)) : value;
      if (std::holds_alternative<double>(real) && in_range(std::get<double>(real))) return real;
      break;
    }
    case Type::kString:
      if (std::holds_alternative<std::string>(value)) return value;
      break;
    case Type::kWord: {
      const auto* word = std::get_if<std::string>(&value);
      const auto& words = key.words;
      if (word != nullptr && std::find(words.begin(), words.end(), *word) != words.end()) {
        return value;
      }
      break;
    }
    case Type::kHeads: {
      const Value list = integer != nullptr ? Value(std::vector<int64_t>{*integer}) : value;
      const auto* numbers = std::get_if<std::vector<int64_t>>(&list);
      if (numbers != nullptr && std::all_of(numbers->begin(), numbers->end(), in_range)) {
        return list;
      }
      break;
    }
  }
  return std::nullopt;
}

void Resolver::unknown(const Entry& entry, const std::string& where) {
  if (entry.is_table) {
    mistake(where, text_of("section ", entry.name, ": unknown; did you mean ",
                           quoted(nearest_section(entry.name).name), "?"));
    return;
  }
  const Key& nearest = nearest_key(entry.name);
  doubtful_.insert(nearest.name);
  mistake(where,
          text_of("key ", entry.name, ": unknown; did you mean ", quoted(nearest.name), "?"));
}

void Resolver::apply(const Entry& entry, const std::string& where) {
  const Key* key = find_key(entry.name);
  if (key == nullptr) {
    unknown(entry, where);
    return;
  }
  const std::optional<Value> value = fitting(*key, entry.value);
  if (!value) {
    doubtful_.insert(key->name);
    mistake(where,
            text_of("key ", key->name, ": found ", found_text(entry), "; needed ", key->needed()));
    return;
  }
  key->set(resolved_.config, *value);
  resolved_.origins[key->name] = where;
}

void Resolver::read(const std::string& text) {
  const Document document = read_toml(text);
  for (const SyntaxError& error : document.errors) {
    readable_ = false;
    mistake(text_of(name_, ":", error.line), "this is not TOML: " + error.message);
  }
  for (const Entry& entry : document.entries) {
    const auto same = [&](const Section& section) { return section.name == entry.name; };
    const bool is_section = std::any_of(schema().begin(), schema().end(), same);
    const std::string where = text_of(name_, ":", entry.line);
    if (is_section && !entry.is_table) {
      mistake(where, text_of("key ", entry.name, ": found ", found_text(entry),
                             "; needed a section, [", entry.name, "]"));
    } else if (!is_section) {
      apply(entry, where);
    }
  }
}

void Resolver::override_with(const std::string& argument) {
  const size_t equals = argument.find('=');
  if (equals == std::string::npos) {
    mistake(kOverride, text_of("found ", quoted(argument), "; needed section.key=value"));
    return;
  }
  const size_t name_end = argument.find_last_not_of(" \t", equals - 1);
  const std::string name = equals == 0 ? "" : argument.substr(0, name_end + 1);
  const std::string text = argument.substr(equals + 1);
  const Key* key = find_key(name);
  const Document document = read_toml("value = " + text);
  const bool is_toml = document.errors.empty() && document.entries.size() == 1;
  Entry entry;
  if (is_toml) entry = document.entries.front();
  entry.name = name;
  const bool wants_text =
      key != nullptr && (key->type == Type::kString || key->type == Type::kWord);
  const bool is_quoted = !text.empty() && (text.front() == '"' || text.front() == '\'');
  if (!is_quoted && (!is_toml || wants_text)) {
    entry.value = text;  // a bare word
    entry.kind = "a text";
    if (!read_toml("value = " + quoted(text)).errors.empty()) {
      mistake(kOverride, text_of("key ", name, ": found bytes that are not UTF-8; needed UTF-8"));
      return;
    }
  } else if (!is_toml) {
    mistake(kOverride, text_of("key ", name, ": found ", text, "; needed a value in TOML syntax"));
    return;
  }
  apply(entry, kOverride);
}

Resolved Resolver::finish() {
  for (const Conflict& conflict :
       readable_ ? conflicts(resolved_.config) : std::vector<Conflict>{}) {
    const auto doubtful = [&](const std::string& key) { return doubtful_.count(key) > 0; };
    if (std::any_of(conflict.keys.begin(), conflict.keys.end(), doubtful)) continue;
    const auto given = [&](const std::string& key) {
      return resolved_.origins.at(key) != kDefault;
    };
    const auto place = std::find_if(conflict.keys.begin(), conflict.keys.end(), given);
    const std::string& where = place == conflict.keys.end() ? name_ : resolved_.origins.at(*place);
    mistake(where, "key " + conflict.keys.front() + ": " + conflict.text);
  }
  if (mistakes_.empty()) return std::move(resolved_);
  std::string text;
  if (mistakes_.size() > 1) text = text_of(mistakes_.size(), " mistakes in the configuration:");
  for (const std::string& line : mistakes_) text += (text.empty() ? "" : "\n  ") + line;
  throw UserError(text, kExitUsage);
}

}  // namespace

Resolved parse(const std::string& text, const std::string& name,
               const std::vector<std::string>& overrides) {
  Resolver resolver(name);
  resolver.read(text);
  for (const std::string& argument : overrides) resolver.override_with(argument);
  return resolver.finish();
}

Resolved load(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  const auto refuse = [&](const std::string& found) {
    throw UserError(text_of(file.string(), ": ", found, "; needed a configuration file (TOML)"),
                    kExitUsage);
  };
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) refuse("found a folder");
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  if (!in) refuse(std::strerror(errno));
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  if (in.bad()) refuse(std::strerror(errno));
  return parse(text, file.string(), overrides);
}

}  // namespace headwise::config
