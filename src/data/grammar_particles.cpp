#include "src/data/grammar_particles.h"

#include <stdexcept>

#include "src/data/grammar_hangul.h"

namespace headwise::data::grammar {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// The number is read to its last digit that is not 0; zeros after it are read as 십, 백, 천 or 만,
// which all end in a consonant other than ㄹ.
Ending ending_of_number(std::string_view word) {
  if (word.back() != '0') {
    switch (word.back()) {
      case '1':  // 일
      case '7':  // 칠
      case '8':  // 팔
        return Ending::kRieul;
      case '3':  // 삼
      case '6':  // 육
        return Ending::kConsonant;
      default:  // 이, 사, 오, 구
        return Ending::kVowel;
    }
  }
  return Ending::kConsonant;  // 영, 십, 백, 천, 만
}

// By the rules for writing foreign words: voiceless stops and nasals close the last syllable, all
// other consonants but l take a vowel of their own (스, 르, 드, 프, ...).
Ending ending_of_letter(char last) {
  switch (last | 0x20) {
    case 'l':
      return Ending::kRieul;
    case 'm':
    case 'n':
    case 'g':  // only as ng, see below
    case 'c':
    case 'k':
    case 'p':
    case 'q':
    case 't':
      return Ending::kConsonant;
    default:
      return Ending::kVowel;
  }
}

Ending ending_of_latin(std::string_view word) {
  const char last = static_cast<char>(word.back() | 0x20);
  const char before = word.size() > 1 ? static_cast<char>(word[word.size() - 2] | 0x20) : ' ';
  if (last == 'g' && before != 'n') return Ending::kVowel;  // 그, but ng is ㅇ
  return ending_of_letter(last);
}

}  // namespace

Ending ending_of(std::string_view word) {
  if (const auto syllable = last_syllable(word)) {
    if (syllable->tail == kTailNone) return Ending::kVowel;
    return syllable->tail == kTailL ? Ending::kRieul : Ending::kConsonant;
  }
  if (!word.empty() && is_digit(word.back())) return ending_of_number(word);
  if (!word.empty() && is_letter(word.back())) return ending_of_latin(word);
  throw std::invalid_argument(
      "no particle can follow '" + std::string(word) +
      "': a Hangul syllable, a digit or a Latin letter is needed at its end");
}

std::string with_particle(std::string_view word, Particle particle) {
  const Ending ending = ending_of(word);
  const auto choose = [&](const char* after_consonant, const char* after_vowel) {
    return std::string(word) + (ending == Ending::kVowel ? after_vowel : after_consonant);
  };
  switch (particle) {
    case Particle::kTopic:
      return choose("은", "는");
    case Particle::kSubject:
      return choose("이", "가");
    case Particle::kObject:
      return choose("을", "를");
    case Particle::kAnd:
      return choose("과", "와");
    case Particle::kDirection:
      return std::string(word) + (ending == Ending::kConsonant ? "으로" : "로");
    case Particle::kRecipient:
      return std::string(word) + "에게";
    case Particle::kPlace:
      return std::string(word) + "에서";
    case Particle::kGoal:
      return std::string(word) + "에";
    case Particle::kOwner:
      return std::string(word) + "의";
  }
  throw std::invalid_argument("unknown particle");
}

}  // namespace headwise::data::grammar
