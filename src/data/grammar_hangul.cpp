#include "src/data/grammar_hangul.h"

#include <stdexcept>

namespace headwise::data::grammar {
namespace {

constexpr int kFirst = 0xAC00, kLast = 0xD7A3, kVowels = 21, kTails = 28;
constexpr size_t kBytes = 3;  // every Hangul syllable in UTF-8

Syllable require_last(std::string_view text) {
  const auto syllable = last_syllable(text);
  if (!syllable) {
    throw std::invalid_argument("a Hangul syllable is needed at the end of '" + std::string(text) +
                                "'");
  }
  return *syllable;
}

}  // namespace

std::optional<Syllable> last_syllable(std::string_view text) {
  if (text.size() < kBytes) return std::nullopt;
  const std::string_view last = text.substr(text.size() - kBytes);
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(last[i]); };
  if ((byte(0) & 0xF0) != 0xE0) return std::nullopt;
  const int code = (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  if (code < kFirst || code > kLast) return std::nullopt;
  const int index = code - kFirst;
  return Syllable{index / (kVowels * kTails), index / kTails % kVowels, index % kTails};
}

std::string compose(const Syllable& syllable) {
  const int code = kFirst + (syllable.lead * kVowels + syllable.vowel) * kTails + syllable.tail;
  return {static_cast<char>(0xE0 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
          static_cast<char>(0x80 | (code & 0x3F))};
}

std::string_view without_last_syllable(std::string_view text) {
  require_last(text);
  return text.substr(0, text.size() - kBytes);
}

std::string replace_last(std::string_view text, const Syllable& syllable) {
  return std::string(without_last_syllable(text)) + compose(syllable);
}

std::string with_tail(std::string_view text, Tail tail) {
  Syllable syllable = require_last(text);
  syllable.tail = tail;
  return replace_last(text, syllable);
}

}  // namespace headwise::data::grammar
