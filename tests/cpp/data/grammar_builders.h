// Short ways to say a sentence in tests: does(kPast, {name("Mina")}, "see", {the("cat")}).
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string_view>
#include <utility>

#include "src/data/grammar_sentence.h"

namespace headwise::data::grammar {

template <typename Entry>
const Entry* find(std::span<const Entry> entries, const char* Entry::*word,
                  std::string_view wanted) {
  for (const Entry& entry : entries) {
    if (entry.*word == wanted) return &entry;
  }
  ADD_FAILURE() << wanted << " is not in the lexicon";
  return nullptr;
}

inline const Noun* noun(std::string_view word) { return find(nouns(), &Noun::singular, word); }
inline const Verb* verb(std::string_view word) { return find(verbs(), &Verb::base, word); }
inline const Adjective* adjective(std::string_view word) {
  return find(adjectives(), &Adjective::english, word);
}
inline const TimeWord* when(std::string_view word) {
  return find(time_words(), &TimeWord::english, word);
}

inline NounPhrase the(std::string_view word, const char* quality = nullptr) {
  NounPhrase phrase;
  phrase.noun = noun(word);
  if (quality) phrase.adjective = adjective(quality);
  return phrase;
}

inline NounPhrase with(Determiner determiner, NounPhrase phrase) {
  phrase.determiner = determiner;
  return phrase;
}

inline NounPhrase a(std::string_view word, const char* quality = nullptr) {
  return with(Determiner::kA, the(word, quality));
}

inline NounPhrase count(int64_t number, NounPhrase phrase) {
  phrase.number = number;
  return with(Determiner::kCount, std::move(phrase));
}

inline NounPhrase owned(const char* owner, NounPhrase phrase) {
  phrase.name = owner;
  return with(Determiner::kOwner, std::move(phrase));
}

inline NounPhrase of_kind(NounPhrase::Kind kind, int64_t number = 0) {
  NounPhrase phrase;
  phrase.kind = kind;
  phrase.number = number;
  return phrase;
}

inline NounPhrase name(const char* text) {
  NounPhrase phrase = of_kind(NounPhrase::Kind::kName);
  phrase.name = text;
  return phrase;
}

inline const NounPhrase kI = of_kind(NounPhrase::Kind::kI);
inline const NounPhrase kWe = of_kind(NounPhrase::Kind::kWe);

inline Location at(std::string_view place, Location::Side side = Location::Side::kAt) {
  return {noun(place), "", side};
}

inline Clause does(Tense tense, NounGroup subject, std::string_view action, NounGroup object = {}) {
  Clause clause;
  clause.tense = tense;
  clause.subject = std::move(subject);
  clause.verb = verb(action);
  clause.object = std::move(object);
  return clause;
}

inline Clause is(Tense tense, NounPhrase subject, const char* quality) {
  Clause clause;
  clause.kind = ClauseKind::kAdjective;
  clause.tense = tense;
  clause.subject = {std::move(subject)};
  clause.adjective = adjective(quality);
  return clause;
}

inline Clause is_a(Tense tense, NounPhrase subject, std::string_view role) {
  Clause clause;
  clause.kind = ClauseKind::kRole;
  clause.tense = tense;
  clause.subject = {std::move(subject)};
  clause.role = noun(role);
  return clause;
}

inline Clause there_is(Tense tense, NounPhrase thing, Location place) {
  Clause clause;
  clause.kind = ClauseKind::kExistence;
  clause.tense = tense;
  clause.subject = {std::move(thing)};
  clause.place = std::move(place);
  return clause;
}

inline NounPhrase that(NounPhrase head, Clause relative) {
  head.relative = std::make_shared<Clause>(std::move(relative));
  return head;
}

template <typename Change>
inline Clause but(Clause clause, const Change& change) {
  change(clause);
  return clause;
}

inline Clause isnt(Clause clause) {
  clause.negative = true;
  return clause;
}

}  // namespace headwise::data::grammar
