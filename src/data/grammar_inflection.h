// Korean verbs and adjectives in the formal polite style, inflected by rule from their stems.
#pragma once

#include <string>
#include <string_view>

namespace headwise::data::grammar {

/// How a stem changes before a vowel. Stems in ㄹ, ㅡ and 하 change by rule and count as regular.
enum class StemKind {
  kRegular,
  kB,            // ㅂ -> 우: 굽다 구워
  kBToO,         // ㅂ -> 오 before 아: 돕다 도와
  kD,            // ㄷ -> ㄹ: 듣다 들어
  kS,            // ㅅ falls: 짓다 지어
  kH,            // ㅎ falls: 빨갛다 빨개
  kReu,          // 르 -> ㄹ라/ㄹ러: 고르다 골라
  kUncontracted  // 이다 after a consonant, 아니다: -이었-, never -였-
};

enum class Tense { kPast, kPresent, kFuture };

/// What a sentence says of its subject: the stem of a verb or an adjective, possibly of several
/// words
/// ("읽을 수 있").
struct Predicate {
  std::string stem;
  StemKind kind = StemKind::kRegular;
  bool adjective = false;
};

enum class Form {
  kStatement,  // -ㅂ니다/습니다
  kQuestion,   // -ㅂ니까/습니까
  kAnd,        // -고
  kBut,        // -지만
  kBecause,    // -기 때문에
  kAttribute,  // -는, -(으)ㄴ, -(으)ㄹ: before a noun
};

std::string inflect(const Predicate& predicate, Tense tense, Form form);

/// -지 않다.
Predicate negated(const Predicate& predicate);

/// -(으)ㄹ 수 있다, or 없다.
Predicate ability(const Predicate& predicate, bool can);

/// NOUN이다 or NOUN이/가 아니다.
Predicate copula(std::string_view noun, bool is);

}  // namespace headwise::data::grammar
