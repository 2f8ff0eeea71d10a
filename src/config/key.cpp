// What a key takes, in words, and the search for the key that was meant.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <tuple>

#include "src/config/error.h"
#include "src/config/format.h"
#include "src/config/schema.h"

namespace headwise::config {
namespace {

/// Insertions, deletions and replacements that turn `a` into `b`.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j - 1] + 1, row[j] + 1});
    }
  }
  return row.back();
}

/// Case and hyphens do not count as edits.
std::string normalised(std::string name) {
  for (char& c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-') c = '_';
  }
  return name;
}

std::string word_list(const std::vector<std::string>& words) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i > 0) text += i + 1 == words.size() ? " or " : ", ";
    text += quoted(words[i]);
  }
  return text;
}

}  // namespace

bool Range::contains(double number) const {
  if (!std::isfinite(number)) return false;
  if (or_zero && number == 0) return true;
  return (low_open ? number > low : number >= low) && (high_open ? number < high : number <= high);
}

std::string Range::text() const {
  std::string text = or_zero ? "0, or " : "";
  if (std::isfinite(low)) text += text_of(low_open ? "above " : "at least ", number_text(low));
  if (std::isfinite(high)) {
    text += text_of(high_open ? " and below " : " and at most ", number_text(high));
  }
  return text;
}

std::string Key::allowed() const {
  if (type == Type::kBool) return "true or false";
  return type == Type::kWord ? word_list(words) : range.text();
}

std::string Key::needed() const {
  const std::string limits = allowed().empty() ? "" : ", " + allowed();
  switch (type) {
    case Type::kBool:
    case Type::kWord:
      return allowed();
    case Type::kInteger:
      return "a whole number" + limits;
    case Type::kReal:
      return "a number" + limits;
    case Type::kString:
      return "a text in quotes";
    case Type::kHeads:
      return "a whole number or a list of them" + limits;
  }
  return {};
}

const Key* find_key(const std::string& name) {
  for (const Section& section : schema()) {
    for (const Key& key : section.keys) {
      if (key.name == name) return &key;
    }
  }
  return nullptr;
}

const Key& nearest_key(const std::string& name) {
  const std::string given = normalised(name);
  const std::string given_member = given.substr(given.rfind('.') + 1);
  const Key* nearest = &schema().front().keys.front();
  std::pair<size_t, size_t> least = {SIZE_MAX, SIZE_MAX};
  for (const Section& section : schema()) {
    for (const Key& key : section.keys) {
      const size_t whole = edit_distance(given, key.name);
      // The right key in a wrong section costs one edit, however different the sections are.
      const size_t misplaced = edit_distance(given_member, key.member()) + 1;
      const std::pair<size_t, size_t> cost = {std::min(whole, misplaced), whole};
      if (cost < least) {
        nearest = &key;
        least = cost;
      }
    }
  }
  return *nearest;
}

const Section& nearest_section(const std::string& name) {
  const auto distance = [given = normalised(name)](const Section& section) {
    return edit_distance(given, section.name);
  };
  return *std::min_element(
      schema().begin(), schema().end(),
      [&](const Section& a, const Section& b) { return distance(a) < distance(b); });
}

}  // namespace headwise::config
