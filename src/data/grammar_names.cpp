#include "src/data/grammar_names.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>

namespace headwise::data::grammar {
namespace {

constexpr std::string_view kConsonants = "bdklmnrstv";
constexpr std::string_view kVowels = "aeiou";
// Closing consonants whose Korean reading is beyond doubt; most names end in a vowel.
constexpr std::string_view kClosings = "nmlksr";
constexpr uint64_t kClosedPercent = 45, kLongPercent = 35;

// Syllables can meet in a word of the lexicon, or in one nobody should be called.
constexpr auto kNoNames = std::to_array<std::string_view>(
    {"Bake", "Bakes", "Buses", "Like",  "Likes", "Made", "Make",  "Makes", "Move",  "Moves",
     "Nine", "Seven", "Take",  "Takes", "Demon", "Nude", "Nudes", "Satan", "Semen", "Sodom"});

std::string invent(Random& random) {
  const int syllables = random.percent(kLongPercent) ? 3 : 2;
  std::string name;
  for (int i = 0; i < syllables; ++i) {
    name += random.pick(kConsonants);
    name += random.pick(kVowels);
  }
  if (random.percent(kClosedPercent)) name += random.pick(kClosings);
  name[0] = static_cast<char>(name[0] - 'a' + 'A');
  return name;
}

bool is_refused(std::string_view name) {
  return std::ranges::find(kNoNames, name) != kNoNames.end();
}

bool is_one_of(std::string_view letters, char c) { return letters.find(c) != letters.npos; }

// Whether invent() can give this word.
bool is_name(std::string_view word) {
  if (word.size() < 4 || word.size() > 7 || is_refused(word)) return false;
  for (size_t i = 0; i < word.size(); ++i) {
    const char c = i == 0 ? static_cast<char>(word[i] - 'A' + 'a') : word[i];
    const bool closing = i % 2 == 0 && i + 1 == word.size();
    if (!is_one_of(i % 2 == 1 ? kVowels : closing ? kClosings : kConsonants, c)) return false;
  }
  return true;
}

bool is_number(std::string_view word) {
  return !word.empty() && word.find_first_not_of("0123456789") == word.npos;
}

bool allowed(const std::string& text, Pool pool) {
  return held_out(text) == (pool == Pool::kHeldOut);
}

}  // namespace

bool held_out(const std::string& text) { return text_hash(text) % 4 == 0; }

bool holds_held_out(const std::string& sentence) {
  std::istringstream words(sentence);
  for (std::string word; words >> word;) {
    if (word.ends_with("'s")) word.resize(word.size() - 2);
    while (!word.empty() && is_one_of(".,?", word.back())) word.pop_back();
    if ((is_name(word) || is_number(word)) && held_out(word)) return true;
  }
  return false;
}

std::string draw_name(Random& random, Pool pool) {
  while (true) {
    std::string name = invent(random);
    if (allowed(name, pool) && !is_refused(name)) return name;
  }
}

int64_t draw_number(Random& random, Pool pool, int64_t first, int64_t last) {
  while (true) {
    const int64_t number = random.between(first, last);
    if (allowed(std::to_string(number), pool)) return number;
  }
}

int64_t draw_long_number(Random& random, Pool pool) {
  if (random.percent(45)) return draw_number(random, pool, 11, 99);
  return random.percent(55) ? draw_number(random, pool, 100, 999)
                            : draw_number(random, pool, 1000, 9999);
}

}  // namespace headwise::data::grammar
