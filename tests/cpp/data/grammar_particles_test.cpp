// Particles against readings written down by hand and against Unicode's own decomposition of
// Hangul.
#include "src/data/grammar_particles.h"

#include <gtest/gtest.h>
#include <unicode/normalizer2.h>
#include <unicode/unistr.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace headwise::data::grammar {
namespace {

struct Reading {
  std::string text, read;
};

// Independent of the code under test: ICU takes the last syllable of the reading apart.
Ending ending_by_icu(const std::string& korean) {
  UErrorCode status = U_ZERO_ERROR;
  const icu::Normalizer2* nfd = icu::Normalizer2::getNFDInstance(status);
  const icu::UnicodeString jamo = nfd->normalize(icu::UnicodeString::fromUTF8(korean), status);
  EXPECT_TRUE(U_SUCCESS(status));
  const char32_t last = jamo.char32At(jamo.length() - 1);
  if (last == 0x11AF) return Ending::kRieul;
  return last >= 0x11A8 && last <= 0x11C2 ? Ending::kConsonant : Ending::kVowel;
}

TEST(GrammarParticles, DigitsFollowTheirSinoKoreanReading) {
  const std::vector<Reading> readings = {
      {"0", "영"},          {"1", "일"},          {"2", "이"},
      {"3", "삼"},          {"4", "사"},          {"5", "오"},
      {"6", "육"},          {"7", "칠"},          {"8", "팔"},
      {"9", "구"},          {"10", "십"},         {"11", "십일"},
      {"17", "십칠"},       {"20", "이십"},       {"36", "삼십육"},
      {"100", "백"},        {"102", "백이"},      {"250", "이백오십"},
      {"600", "육백"},      {"1000", "천"},       {"1984", "천구백팔십사"},
      {"2030", "이천삼십"}, {"5008", "오천팔"},   {"7000", "칠천"},
      {"10000", "만"},      {"300000", "삼십만"}, {"100000000", "일억"}};
  for (const auto& [digits, read] : readings) {
    EXPECT_EQ(ending_of(digits), ending_by_icu(read)) << digits << " is read " << read;
  }
}

TEST(GrammarParticles, LatinNamesFollowTheirKoreanSpelling) {
  const std::vector<Reading> names = {
      {"Toma", "토마"},      {"Mina", "미나"},   {"Keve", "케베"},       {"Rosi", "로시"},
      {"Bakuni", "바쿠니"},  {"Rumil", "루밀"},  {"Katul", "카툴"},      {"Relon", "렐론"},
      {"Ratim", "라팀"},     {"Damuk", "다묵"},  {"Silis", "실리스"},    {"Leror", "레로르"},
      {"David", "데이비드"}, {"Philip", "필립"}, {"Gustav", "구스타브"}, {"Craig", "크레이그"},
      {"Hong", "홍"}};
  for (const auto& [name, read] : names) {
    EXPECT_EQ(ending_of(name), ending_by_icu(read)) << name << " is written " << read;
  }
}

TEST(GrammarParticles, EveryHangulSyllable) {
  for (UChar32 code = 0xAC00; code <= 0xD7A3; ++code) {
    std::string syllable;
    icu::UnicodeString(code).toUTF8String(syllable);
    ASSERT_EQ(ending_of("가" + syllable), ending_by_icu(syllable)) << syllable;
  }
}

TEST(GrammarParticles, EveryShape) {
  const auto shapes = [](const std::string& word) {
    std::string all;
    for (const Particle particle : {Particle::kTopic, Particle::kSubject, Particle::kObject,
                                    Particle::kAnd, Particle::kDirection, Particle::kRecipient,
                                    Particle::kPlace, Particle::kGoal, Particle::kOwner}) {
      all += with_particle(word, particle) + " ";
    }
    return all;
  };
  EXPECT_EQ(shapes("새"), "새는 새가 새를 새와 새로 새에게 새에서 새에 새의 ");
  EXPECT_EQ(shapes("곰"), "곰은 곰이 곰을 곰과 곰으로 곰에게 곰에서 곰에 곰의 ");
  EXPECT_EQ(shapes("말"), "말은 말이 말을 말과 말로 말에게 말에서 말에 말의 ");
  EXPECT_EQ(shapes("17"), "17은 17이 17을 17과 17로 17에게 17에서 17에 17의 ");
  EXPECT_EQ(shapes("Ratim"),
            "Ratim은 Ratim이 Ratim을 Ratim과 Ratim으로 Ratim에게 Ratim에서 "
            "Ratim에 Ratim의 ");
}

TEST(GrammarParticles, RefusesWhatHasNoReading) {
  for (const char* word : {"", "(", "책.", "é"}) {
    EXPECT_THROW(with_particle(word, Particle::kTopic), std::invalid_argument) << word;
  }
}

}  // namespace
}  // namespace headwise::data::grammar
