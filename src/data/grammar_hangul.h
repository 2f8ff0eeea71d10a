// Hangul syllables taken apart and put together (Unicode 3.12: 0xAC00 + (lead * 21 + vowel) * 28 +
// tail).
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace headwise::data::grammar {

/// Vowels and tails (final consonants) by their Unicode order; those the grammar speaks of.
enum Vowel : int {
  kVowelA = 0,
  kVowelAe = 1,
  kVowelYa = 2,
  kVowelYae = 3,
  kVowelEo = 4,
  kVowelE = 5,
  kVowelYeo = 6,
  kVowelYe = 7,
  kVowelO = 8,
  kVowelWa = 9,
  kVowelWae = 10,
  kVowelOe = 11,
  kVowelU = 13,
  kVowelWo = 14,
  kVowelEu = 18,
  kVowelI = 20,
};
enum Tail : int {
  kTailNone = 0,
  kTailN = 4,    // ㄴ
  kTailD = 7,    // ㄷ
  kTailL = 8,    // ㄹ
  kTailB = 17,   // ㅂ
  kTailS = 19,   // ㅅ
  kTailSs = 20,  // ㅆ
  kTailH = 27,   // ㅎ
};
inline constexpr int kLeadL = 5;        // ㄹ
inline constexpr int kLeadSilent = 11;  // ㅇ

struct Syllable {
  int lead = 0, vowel = 0, tail = 0;
};

/// The last character of UTF-8 `text` when it is a Hangul syllable.
std::optional<Syllable> last_syllable(std::string_view text);

/// UTF-8 of one syllable.
std::string compose(const Syllable& syllable);

/// `text`, which ends in a Hangul syllable, without it.
std::string_view without_last_syllable(std::string_view text);

/// `text` with its last syllable replaced.
std::string replace_last(std::string_view text, const Syllable& syllable);

/// `text` with the tail of its last syllable replaced.
std::string with_tail(std::string_view text, Tail tail);

}  // namespace headwise::data::grammar
