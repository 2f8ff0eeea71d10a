// The words of the embedded corpus: English forms, Korean stems and what goes with what.
#pragma once

#include <cstdint>
#include <span>

#include "src/data/grammar_inflection.h"

namespace headwise::data::grammar {

/// What a noun is, as bits; verbs and adjectives say which bits they go with.
enum NounClass : uint32_t {
  kPerson = 1u << 0,
  kAnimal = 1u << 1,
  kFood = 1u << 2,
  kFruit = 1u << 3,  // grown, round: also kFood
  kBaked = 1u << 4,  // also kFood
  kDrink = 1u << 5,
  kText = 1u << 6,     // read
  kWritten = 1u << 7,  // written by hand
  kHeard = 1u << 8,
  kGoods = 1u << 9,   // a person carries it
  kSmall = 1u << 10,  // thrown and picked up; also kGoods
  kFurniture = 1u << 11,
  kOpened = 1u << 12,  // opened and closed
  kVehicle = 1u << 13,
  kTransit = 1u << 14,  // ridden as a passenger
  kBuilding = 1u << 15,
  kPlace = 1u << 16,       // one is or acts there (에, 에서)
  kSettlement = 1u << 17,  // one moves there
  kNumeral = 1u << 18,     // "the number 38"
  kPage = 1u << 19,        // "page 38"
  kBus = 1u << 20,         // "bus 38"
  kRide = 1u << 21,        // one goes by it
  kSurface = 1u << 22,     // things are on and under it
  kContainer = 1u << 23,   // things are in it
};

struct Noun {
  const char *singular, *plural;  // plural "": a mass noun
  const char* korean;
  const char* counter;  // "": never counted
  uint32_t classes;
  const char* preposition = "";  // of places: "in" or "at"
};

/// Which complements a verb takes.
enum class Frame {
  kObject,     // 을/를
  kState,      // 을/를, but no place: to like, to remember
  kGive,       // 에게 을/를
  kActivity,   // nothing
  kGoal,       // 에
  kDirection,  // (으)로
  kChange,     // a number to a number: 을/를 (으)로
};

struct Verb {
  const char *base, *third, *past;
  const char* stem;
  StemKind kind;
  Frame frame;
  uint32_t subjects, objects;    // classes; of goal verbs: the places
  const char* preposition = "";  // of goal verbs: "to" or "at"
};

struct Adjective {
  const char* english;
  const char* stem;  // "": only before a noun
  StemKind kind;
  uint32_t classes;
  const char* attribute = "";  // the Korean word of an adjective without a stem
};

/// When something happens; `frequency` words stand before the English verb, the rest outside.
struct TimeWord {
  const char *english, *korean;
  Tense tense;
  bool frequency = false;
};

std::span<const Noun> nouns();
std::span<const Verb> verbs();
std::span<const Adjective> adjectives();
std::span<const TimeWord> time_words();

/// one ... ten and 한 ... 열; larger numbers are written in digits.
inline constexpr int64_t kLargestWordNumber = 10;
const char* english_number(int64_t number);
const char* korean_number(int64_t number);

}  // namespace headwise::data::grammar
