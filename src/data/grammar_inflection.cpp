#include "src/data/grammar_inflection.h"

#include <stdexcept>

#include "src/data/grammar_hangul.h"
#include "src/data/grammar_particles.h"

namespace headwise::data::grammar {
namespace {

bool is_bright(int vowel) { return vowel == kVowelA || vowel == kVowelYa || vowel == kVowelO; }

Syllable last_of(std::string_view stem) {
  const auto syllable = last_syllable(stem);
  if (!syllable) throw std::invalid_argument("a stem must end in Hangul: " + std::string(stem));
  return *syllable;
}

std::string append_a(std::string_view stem, bool bright) {
  return std::string(stem) + (bright ? "아" : "어");
}

// 고르 -> 골라, 부르 -> 불러
std::string infinitive_of_reu(std::string_view stem) {
  const std::string_view head = without_last_syllable(stem);
  const bool bright = is_bright(last_of(head).vowel);
  return with_tail(head, kTailL) + compose({kLeadL, bright ? kVowelA : kVowelEo, kTailNone});
}

// 쓰 -> 써, 배고프 -> 배고파: ㅡ falls, the syllable before decides.
std::string infinitive_of_eu(std::string_view stem) {
  Syllable last = last_of(stem);
  const auto before = last_syllable(without_last_syllable(stem));
  last.vowel = before && is_bright(before->vowel) ? kVowelA : kVowelEo;
  return replace_last(stem, last);
}

// 빨갛 -> 빨개, 하얗 -> 하얘
std::string infinitive_of_h(std::string_view stem) {
  Syllable last = last_of(stem);
  last.tail = kTailNone;
  last.vowel += 1;  // ㅏ ㅐ, ㅑ ㅒ, ㅓ ㅔ, ㅕ ㅖ
  return replace_last(stem, last);
}

// A stem without a final consonant melts with 아/어.
std::string infinitive_of_open(std::string_view stem) {
  Syllable last = last_of(stem);
  if (compose(last) == "하") return std::string(without_last_syllable(stem)) + "해";
  switch (last.vowel) {
    case kVowelA:
    case kVowelEo:
    case kVowelAe:
    case kVowelE:
    case kVowelYeo:
      return std::string(stem);
    case kVowelO:
      last.vowel = kVowelWa;
      break;
    case kVowelU:
      last.vowel = kVowelWo;
      break;
    case kVowelI:
      last.vowel = kVowelYeo;
      break;
    case kVowelOe:
      last.vowel = kVowelWae;
      break;
    case kVowelEu:
      return infinitive_of_eu(stem);
    default:  // 쉬 -> 쉬어
      return append_a(stem, false);
  }
  return replace_last(stem, last);
}

// The stem with -아/어.
std::string infinitive(const Predicate& predicate) {
  const std::string& stem = predicate.stem;
  const Syllable last = last_of(stem);
  switch (predicate.kind) {
    case StemKind::kB:
      return with_tail(stem, kTailNone) + "워";
    case StemKind::kBToO:
      return with_tail(stem, kTailNone) + "와";
    case StemKind::kD:
      return append_a(with_tail(stem, kTailL), is_bright(last.vowel));
    case StemKind::kS:
      return append_a(with_tail(stem, kTailNone), is_bright(last.vowel));
    case StemKind::kH:
      return infinitive_of_h(stem);
    case StemKind::kReu:
      return infinitive_of_reu(stem);
    case StemKind::kUncontracted:
      return append_a(stem, false);
    case StemKind::kRegular:
      break;
  }
  return last.tail == kTailNone ? infinitive_of_open(stem) : append_a(stem, is_bright(last.vowel));
}

// The stem with -(으)ㄴ or -(으)ㄹ.
std::string with_eu(const Predicate& predicate, Tail tail) {
  const std::string& stem = predicate.stem;
  const std::string eu = with_tail("으", tail);
  switch (predicate.kind) {
    case StemKind::kB:
    case StemKind::kBToO:
      return with_tail(stem, kTailNone) + with_tail("우", tail);
    case StemKind::kD:
      return with_tail(stem, kTailL) + eu;
    case StemKind::kS:
      return with_tail(stem, kTailNone) + eu;
    case StemKind::kH:
      return with_tail(stem, tail);
    case StemKind::kReu:
    case StemKind::kUncontracted:
    case StemKind::kRegular:
      break;
  }
  const int last = last_of(stem).tail;
  return last == kTailNone || last == kTailL ? with_tail(stem, tail) : stem + eu;
}

// The stem with -ㅂ니/습니, to which 다 or 까 comes.
std::string polite(const std::string& stem) {
  const int last = last_of(stem).tail;
  return last == kTailNone || last == kTailL ? with_tail(stem, kTailB) + "니" : stem + "습니";
}

bool ends_in_existence(const std::string& stem) {
  const std::string last = compose(last_of(stem));
  return last == "있" || last == "없";
}

std::string attribute(const Predicate& predicate, Tense tense) {
  if (tense == Tense::kFuture) return with_eu(predicate, kTailL);
  // 있다 and 없다, also in 맛있다, take -는 although 맛있다 is an adjective.
  if (ends_in_existence(predicate.stem)) return predicate.stem + "는";
  if (tense == Tense::kPast || predicate.adjective) return with_eu(predicate, kTailN);
  if (last_of(predicate.stem).tail == kTailL) return with_tail(predicate.stem, kTailNone) + "는";
  return predicate.stem + "는";
}

}  // namespace

std::string inflect(const Predicate& predicate, Tense tense, Form form) {
  if (form == Form::kAttribute) return attribute(predicate, tense);
  if (tense == Tense::kFuture) {
    const Predicate thing{with_eu(predicate, kTailL) + " 것이", StemKind::kRegular, true};
    return inflect(thing, Tense::kPresent, form);
  }
  const std::string stem =
      tense == Tense::kPast ? with_tail(infinitive(predicate), kTailSs) : predicate.stem;
  switch (form) {
    case Form::kStatement:
      return polite(stem) + "다";
    case Form::kQuestion:
      return polite(stem) + "까";
    case Form::kAnd:
      return stem + "고";
    case Form::kBut:
      return stem + "지만";
    case Form::kBecause:
      return stem + "기 때문에";
    case Form::kAttribute:
      break;
  }
  throw std::invalid_argument("unknown form");
}

Predicate negated(const Predicate& predicate) {
  return {predicate.stem + "지 않", StemKind::kRegular, predicate.adjective};
}

Predicate ability(const Predicate& predicate, bool can) {
  return {with_eu(predicate, kTailL) + (can ? " 수 있" : " 수 없"), StemKind::kRegular, false};
}

Predicate copula(std::string_view noun, bool is) {
  if (!is)
    return {with_particle(noun, Particle::kSubject) + " 아니", StemKind::kUncontracted, true};
  const bool open = ending_of(noun) == Ending::kVowel;
  return {std::string(noun) + "이", open ? StemKind::kRegular : StemKind::kUncontracted, true};
}

}  // namespace headwise::data::grammar
