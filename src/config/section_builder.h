// Makes rows of the schema from pointers to members, so that a row is one call.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "src/config/schema.h"

namespace headwise::config {

inline Range at_least(double low) { return {.low = low}; }
inline Range above(double low) { return {.low = low, .low_open = true}; }
inline Range between(double low, double high) { return {.low = low, .high = high}; }
inline Range fraction() { return {.low = 0, .high = 1, .high_open = true}; }  // [0, 1)
inline Range zero_or_at_least(double low) { return {.low = low, .or_zero = true}; }

template <typename Enum>
using Words = std::vector<std::pair<std::string, Enum>>;

/// Rows of one section; `Part` is its struct.
template <typename Part>
class SectionBuilder {
 public:
  SectionBuilder(std::string name, Part Config::*part, std::string help)
      : section_{std::move(name), std::move(help), {}}, part_(part) {}

  SectionBuilder& flag(const std::string& name, bool Part::*member, const std::string& help) {
    return add(name, Type::kBool, member, {}, help);
  }
  SectionBuilder& integer(const std::string& name, int64_t Part::*member, const Range& range,
                          const std::string& help) {
    return add(name, Type::kInteger, member, range, help);
  }
  SectionBuilder& real(const std::string& name, double Part::*member, const Range& range,
                       const std::string& help) {
    return add(name, Type::kReal, member, range, help);
  }
  SectionBuilder& text(const std::string& name, std::string Part::*member,
                       const std::string& help) {
    return add(name, Type::kString, member, {}, help);
  }
  SectionBuilder& heads(const std::string& name, std::vector<int64_t> Part::*member,
                        const std::string& help) {
    return add(name, Type::kHeads, member, between(1, 65536), help);
  }
  /// A string member that takes only these words.
  SectionBuilder& word(const std::string& name, std::string Part::*member,
                       const std::vector<std::string>& words, const std::string& help) {
    add(name, Type::kWord, member, {}, help);
    section_.keys.back().words = words;
    return *this;
  }

  template <typename Enum>
  SectionBuilder& word(const std::string& name, Enum Part::*member, const Words<Enum>& words,
                       const std::string& help) {
    Key key{.name = section_.name + "." + name, .type = Type::kWord, .help = help};
    for (const auto& [word, value] : words) key.words.push_back(word);
    key.get = [part = part_, member, words](const Config& config) -> Value {
      const auto same = [&](const auto& word) { return word.second == config.*part.*member; };
      return std::find_if(words.begin(), words.end(), same)->first;
    };
    key.set = [part = part_, member, words](Config& config, const Value& value) {
      const auto same = [&](const auto& word) {
        return word.first == std::get<std::string>(value);
      };
      config.*part.*member = std::find_if(words.begin(), words.end(), same)->second;
    };
    section_.keys.push_back(std::move(key));
    return *this;
  }

  Section build() { return std::move(section_); }

 private:
  template <typename Member>
  SectionBuilder& add(const std::string& name, Type type, Member Part::*member, const Range& range,
                      const std::string& help) {
    Key key{.name = section_.name + "." + name, .type = type, .range = range, .help = help};
    key.get = [part = part_, member](const Config& config) -> Value {
      return config.*part.*member;
    };
    key.set = [part = part_, member](Config& config, const Value& value) {
      config.*part.*member = std::get<Member>(value);
    };
    section_.keys.push_back(std::move(key));
    return *this;
  }

  Section section_;
  Part Config::*part_;
};

}  // namespace headwise::config
