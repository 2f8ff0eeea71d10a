// English from the abstract sentence.
#include <string>
#include <vector>

#include "src/data/grammar_sentence.h"

namespace headwise::data::grammar {
namespace {

using Words = std::vector<std::string>;

Words clause_words(const Clause& clause, Agreement head);

void append(Words& words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
}

void add(Words& words, const std::string& word) {
  if (!word.empty()) words.push_back(word);
}

std::string join(const Words& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    text += word;
  }
  return text;
}

bool starts_with_vowel(const std::string& word) {
  return std::string("aeiou").find(word.front()) != std::string::npos;
}

bool is_plural(const NounPhrase& phrase) {
  return phrase.determiner == Determiner::kCount && phrase.number != 1;
}

std::string determiner(const NounPhrase& phrase, const std::string& next_word) {
  switch (phrase.determiner) {
    case Determiner::kNone:
      return "";
    case Determiner::kThe:
      return "the";
    case Determiner::kA:
      return starts_with_vowel(next_word) ? "an" : "a";
    case Determiner::kThis:
      return "this";
    case Determiner::kOwner:
      return phrase.name + "'s";
    case Determiner::kCount:
      return phrase.number <= kLargestWordNumber ? english_number(phrase.number)
                                                 : std::to_string(phrase.number);
  }
  return "";
}

Words relative_words(const NounPhrase& phrase) {
  Words words = {phrase.noun->classes & kPerson ? "who" : "that"};
  append(words, clause_words(*phrase.relative, agreement_of({phrase})));
  return words;
}

Words noun_words(const NounPhrase& phrase) {
  Words core;
  if (phrase.adjective) add(core, phrase.adjective->english);
  core.push_back(is_plural(phrase) ? phrase.noun->plural : phrase.noun->singular);
  Words words;
  add(words, determiner(phrase, core.front()));
  append(words, core);
  if (phrase.relative) append(words, relative_words(phrase));
  return words;
}

Words phrase_words(const NounPhrase& phrase) {
  switch (phrase.kind) {
    case NounPhrase::Kind::kNoun:
      return noun_words(phrase);
    case NounPhrase::Kind::kName:
      return {phrase.name};
    case NounPhrase::Kind::kI:
      return {"I"};
    case NounPhrase::Kind::kWe:
      return {"we"};
    case NounPhrase::Kind::kNumeral:
      return {"the", "number", std::to_string(phrase.number)};
    case NounPhrase::Kind::kPage:
      return {"page", std::to_string(phrase.number)};
    case NounPhrase::Kind::kBus:
      return {"bus", std::to_string(phrase.number)};
  }
  return {};
}

Words group_words(const NounGroup& group) {
  Words words;
  for (const NounPhrase& phrase : group) {
    if (!words.empty()) words.push_back("and");
    append(words, phrase_words(phrase));
  }
  return words;
}

std::string be(Tense tense, Agreement agreement) {
  if (tense == Tense::kFuture) return "be";
  if (tense == Tense::kPast) return agreement == Agreement::kPlural ? "were" : "was";
  if (agreement == Agreement::kFirst) return "am";
  return agreement == Agreement::kThird ? "is" : "are";
}

// The auxiliary of a clause, "" when it needs none. `support`: do is wanted (questions, negation).
std::string auxiliary(const Clause& clause, Agreement agreement, bool support) {
  if (clause.ability) return "can";
  if (clause.tense == Tense::kFuture) return "will";
  if (clause.kind != ClauseKind::kVerb) return be(clause.tense, agreement);
  if (!support) return "";
  if (clause.tense == Tense::kPast) return "did";
  return agreement == Agreement::kThird ? "does" : "do";
}

std::string main_verb(const Clause& clause, Agreement agreement, bool after_auxiliary) {
  if (clause.kind != ClauseKind::kVerb) return clause.tense == Tense::kFuture ? "be" : "";
  if (after_auxiliary) return clause.verb->base;
  if (clause.tense == Tense::kPast) return clause.verb->past;
  return agreement == Agreement::kThird ? clause.verb->third : clause.verb->base;
}

Words location_words(const Location& location, const std::string& preposition) {
  if (!location.name.empty()) return {preposition, location.name};
  return {preposition, "the", location.noun->singular};
}

Words place_words(const Location& place) {
  switch (place.side) {
    case Location::Side::kAt:
      return location_words(place, place.noun->preposition);
    case Location::Side::kOn:
      return location_words(place, "on");
    case Location::Side::kUnder:
      return location_words(place, "under");
    case Location::Side::kInside:
      return location_words(place, "in");
  }
  return {};
}

Words time_words_of(const Clause& clause) {
  if (clause.year != 0) return {"in", std::to_string(clause.year)};
  if (clause.time && !clause.time->frequency) return {clause.time->english};
  return {};
}

// What follows the verb.
Words complement_words(const Clause& clause) {
  Words words;
  if (clause.kind == ClauseKind::kAdjective) add(words, clause.adjective->english);
  if (clause.kind == ClauseKind::kRole) {
    append(words, {starts_with_vowel(clause.role->singular) ? "an" : "a", clause.role->singular});
  }
  if (clause.kind == ClauseKind::kAge)
    append(words, {std::to_string(clause.number), "years", "old"});
  append(words, group_words(clause.object));
  if (clause.verb && clause.verb->frame == Frame::kChange) {
    append(words, {"to", std::to_string(clause.number)});
  }
  if (!clause.recipient.empty()) {
    words.push_back("to");
    append(words, group_words(clause.recipient));
  }
  if (clause.goal.present()) append(words, location_words(clause.goal, clause.verb->preposition));
  if (!clause.companion.empty()) append(words, {"with", clause.companion});
  if (clause.place.present() && !clause.place_first) append(words, place_words(clause.place));
  if (clause.transport) append(words, {"by", clause.transport->singular});
  if (!clause.time_first) append(words, time_words_of(clause));
  return words;
}

// "often buys ...", "not buy ...": all that follows subject and auxiliary.
Words rest_words(const Clause& clause, Agreement agreement, bool after_auxiliary) {
  Words words;
  if (clause.time && clause.time->frequency) words.push_back(clause.time->english);
  add(words, main_verb(clause, agreement, after_auxiliary));
  append(words, complement_words(clause));
  return words;
}

Words predicate_words(const Clause& clause, Agreement agreement) {
  const std::string helper = auxiliary(clause, agreement, clause.negative);
  Words words;
  if (clause.negative && clause.ability) {
    words.push_back("cannot");
  } else {
    add(words, helper);
    if (clause.negative) words.push_back("not");
  }
  append(words, rest_words(clause, agreement, !helper.empty()));
  return words;
}

Words existence_words(const Clause& clause) {
  Words words = {"there", be(clause.tense, agreement_of(clause.subject))};
  if (clause.negative) words.push_back("no");
  append(words, group_words(clause.subject));
  append(words, place_words(clause.place));
  return words;
}

// `head`: how the noun before a relative clause, or the "who" of a question, agrees.
Words clause_words(const Clause& clause, Agreement head) {
  if (clause.kind == ClauseKind::kExistence) return existence_words(clause);
  Words words;
  if (clause.time_first) {
    append(words, time_words_of(clause));
    words.back() += ",";
  }
  if (clause.place_first) {
    append(words, place_words(clause.place));
    words.back() += ",";
  }
  append(words, group_words(clause.subject));
  append(words,
         predicate_words(clause, clause.subject.empty() ? head : agreement_of(clause.subject)));
  return words;
}

Words question_words(const Clause& clause) {
  const Agreement agreement = agreement_of(clause.subject);
  Words words = {auxiliary(clause, agreement, true)};
  append(words, group_words(clause.subject));
  append(words, rest_words(clause, agreement, true));
  return words;
}

Words statement_words(const Sentence& sentence) {
  Words words;
  for (size_t i = 0; i < sentence.clauses.size(); ++i) {
    if (i > 0) {
      const Link link = sentence.links[i - 1];
      if (link != Link::kBecause) words.back() += ",";
      words.push_back(link == Link::kAnd ? "and" : link == Link::kBut ? "but" : "because");
    }
    append(words, clause_words(sentence.clauses[i], Agreement::kThird));
  }
  return words;
}

Words sentence_words(const Sentence& sentence) {
  const Clause& first = sentence.clauses.front();
  Words words;
  switch (sentence.kind) {
    case SentenceKind::kStatement:
      return statement_words(sentence);
    case SentenceKind::kYesNo:
      return question_words(first);
    case SentenceKind::kWho:
      words = {"who"};
      append(words, clause_words(first, Agreement::kThird));
      return words;
    case SentenceKind::kWhom:
      words = {"who"};
      break;
    case SentenceKind::kWhat:
      words = {"what"};
      break;
    case SentenceKind::kWhere:
      words = {"where"};
      break;
  }
  append(words, question_words(first));
  return words;
}

}  // namespace

Agreement agreement_of(const NounGroup& subject) {
  if (subject.size() > 1) return Agreement::kPlural;
  if (subject.empty()) return Agreement::kThird;
  if (subject.front().kind == NounPhrase::Kind::kI) return Agreement::kFirst;
  if (subject.front().kind == NounPhrase::Kind::kWe || is_plural(subject.front())) {
    return Agreement::kPlural;
  }
  return Agreement::kThird;
}

std::string to_english(const Sentence& sentence) {
  std::string text = join(sentence_words(sentence));
  if (text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text + (sentence.kind == SentenceKind::kStatement ? "." : "?");
}

}  // namespace headwise::data::grammar
