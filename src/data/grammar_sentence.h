// A sentence as both languages see it: who does what to whom, before any word is written.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "src/data/grammar_lexicon.h"

namespace headwise::data::grammar {

struct Clause;

/// What stands before a noun. kNone is for mass nouns ("water").
enum class Determiner { kNone, kThe, kA, kThis, kOwner, kCount };

struct NounPhrase {
  enum class Kind { kNoun, kName, kI, kWe, kNumeral, kPage, kBus };
  Kind kind = Kind::kNoun;
  const Noun* noun = nullptr;
  Determiner determiner = Determiner::kThe;
  const Adjective* adjective = nullptr;
  int64_t number = 0;  // kCount: how many; kNumeral, kPage, kBus: which one
  std::string name;    // kName: the name; kOwner: the owner's
  std::shared_ptr<const Clause> relative;
};

/// One noun phrase, or two joined by "and"; empty: absent.
using NounGroup = std::vector<NounPhrase>;

enum class ClauseKind { kVerb, kAdjective, kRole, kAge, kExistence };

/// Where something is: "in the park", and for things "on the table", "under the chair".
struct Location {
  enum class Side { kAt, kOn, kUnder, kInside };
  const Noun* noun = nullptr;
  std::string name;  // a place with a name instead of a noun
  Side side = Side::kAt;
  bool present() const { return noun != nullptr || !name.empty(); }
};

/// The part that a relative clause shares with its noun, or that a question asks for, is empty.
struct Clause {
  ClauseKind kind = ClauseKind::kVerb;
  NounGroup subject;
  const Verb* verb = nullptr;
  const Adjective* adjective = nullptr;
  const Noun* role = nullptr;
  int64_t number = 0;  // kAge: years; Frame::kChange: the new number
  Tense tense = Tense::kPast;
  bool negative = false;
  bool ability = false;  // can, cannot; the tense is kPresent
  NounGroup object, recipient;
  Location goal, place;
  std::string companion;            // with NAME
  const Noun* transport = nullptr;  // by train
  const TimeWord* time = nullptr;
  int64_t year = 0;         // in 1987
  bool time_first = false;  // before the subject
  bool place_first = false;
};

enum class Link { kAnd, kBut, kBecause };

enum class SentenceKind { kStatement, kYesNo, kWho, kWhom, kWhat, kWhere };

/// Clauses in English order; links[i] stands between clauses[i] and clauses[i + 1]. A reason
/// belongs to the clause before it alone and is never itself followed by another reason.
struct Sentence {
  SentenceKind kind = SentenceKind::kStatement;
  std::vector<Clause> clauses;
  std::vector<Link> links;
};

std::string to_english(const Sentence& sentence);
std::string to_korean(const Sentence& sentence);

/// How the English verb agrees with its subject.
enum class Agreement { kFirst, kThird, kPlural };
Agreement agreement_of(const NounGroup& subject);

}  // namespace headwise::data::grammar
