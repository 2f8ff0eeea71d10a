// Korean from the abstract sentence: modifiers before nouns, the predicate last.
#include <string>
#include <vector>

#include "src/data/grammar_particles.h"
#include "src/data/grammar_sentence.h"

namespace headwise::data::grammar {
namespace {

using Words = std::vector<std::string>;

// What stands for the part a question asks for; empty in statements and relative clauses.
struct Asked {
  std::string subject, complement;
};

std::string clause_text(const Clause& clause, Particle subject, Form form, const Asked& asked = {});

std::string join(const Words& words) {
  std::string text;
  for (const std::string& word : words) {
    if (!text.empty()) text += ' ';
    text += word;
  }
  return text;
}

Predicate predicate_of(const Adjective& adjective) {
  return {adjective.stem, adjective.kind, true};
}

std::string attribute_of(const Adjective& adjective) {
  if (*adjective.attribute) return adjective.attribute;
  return inflect(predicate_of(adjective), Tense::kPresent, Form::kAttribute);
}

// 세 개, but 17개
std::string counted(int64_t number, const std::string& counter) {
  if (number <= kLargestWordNumber) return korean_number(number) + (" " + counter);
  return std::to_string(number) + counter;
}

std::string noun_text(const NounPhrase& phrase) {
  Words words;
  if (phrase.relative) {
    words.push_back(clause_text(*phrase.relative, Particle::kSubject, Form::kAttribute));
  }
  if (phrase.determiner == Determiner::kThis) words.push_back("이");
  if (phrase.determiner == Determiner::kOwner) {
    words.push_back(with_particle(phrase.name, Particle::kOwner));
  }
  if (phrase.adjective) words.push_back(attribute_of(*phrase.adjective));
  words.push_back(phrase.noun->korean);
  if (phrase.determiner == Determiner::kCount) {
    words.push_back(counted(phrase.number, phrase.noun->counter));
  }
  return join(words);
}

std::string phrase_text(const NounPhrase& phrase) {
  switch (phrase.kind) {
    case NounPhrase::Kind::kNoun:
      return noun_text(phrase);
    case NounPhrase::Kind::kName:
      return phrase.name;
    case NounPhrase::Kind::kI:
      return "저";
    case NounPhrase::Kind::kWe:
      return "우리";
    case NounPhrase::Kind::kNumeral:
      return "숫자 " + std::to_string(phrase.number);
    case NounPhrase::Kind::kPage:
      return std::to_string(phrase.number) + "쪽";
    case NounPhrase::Kind::kBus:
      return std::to_string(phrase.number) + "번 버스";
  }
  return "";
}

std::string group_text(const NounGroup& group, Particle particle) {
  // 저 + 가 is 제가.
  if (particle == Particle::kSubject && group.back().kind == NounPhrase::Kind::kI) return "제가";
  Words words;
  for (size_t i = 0; i + 1 < group.size(); ++i) {
    words.push_back(with_particle(phrase_text(group[i]), Particle::kAnd));
  }
  words.push_back(with_particle(phrase_text(group.back()), particle));
  return join(words);
}

std::string location_text(const Location& location, Particle particle) {
  if (!location.name.empty()) return with_particle(location.name, particle);
  const std::string noun = location.noun->korean;
  switch (location.side) {
    case Location::Side::kAt:
      return with_particle(noun, particle);
    case Location::Side::kOn:
      return with_particle(noun + " 위", particle);
    case Location::Side::kUnder:
      return with_particle(noun + " 밑", particle);
    case Location::Side::kInside:
      return with_particle(noun + " 안", particle);
  }
  return "";
}

std::string time_text(const Clause& clause) {
  return clause.year != 0 ? std::to_string(clause.year) + "년에" : clause.time->korean;
}

Predicate predicate_of(const Clause& clause) {
  switch (clause.kind) {
    case ClauseKind::kVerb: {
      const Predicate verb{clause.verb->stem, clause.verb->kind, false};
      if (clause.ability) return ability(verb, !clause.negative);
      return clause.negative ? negated(verb) : verb;
    }
    case ClauseKind::kAdjective: {
      const Predicate adjective = predicate_of(*clause.adjective);
      return clause.negative ? negated(adjective) : adjective;
    }
    case ClauseKind::kRole:
      return copula(clause.role->korean, !clause.negative);
    case ClauseKind::kAge:
      return copula(std::to_string(clause.number) + "살", !clause.negative);
    case ClauseKind::kExistence:
      return {clause.negative ? "없" : "있", StemKind::kRegular, false};
  }
  return {};
}

void add_complements(Words& words, const Clause& clause) {
  if (!clause.companion.empty()) {
    words.push_back(with_particle(clause.companion, Particle::kAnd) + " 함께");
  }
  const bool place_here = clause.place.present() && !clause.place_first;
  if (place_here && clause.kind == ClauseKind::kVerb) {
    words.push_back(location_text(clause.place, Particle::kPlace));
  }
  if (clause.transport) {
    words.push_back(with_particle(clause.transport->korean, Particle::kDirection));
  }
  if (!clause.recipient.empty()) {
    words.push_back(group_text(clause.recipient, Particle::kRecipient));
  }
  if (clause.goal.present()) {
    const bool direction = clause.verb->frame == Frame::kDirection;
    words.push_back(location_text(clause.goal, direction ? Particle::kDirection : Particle::kGoal));
  }
  if (!clause.object.empty()) {
    words.push_back(group_text(clause.object, Particle::kObject));
  }
  if (clause.verb && clause.verb->frame == Frame::kChange) {
    words.push_back(with_particle(std::to_string(clause.number), Particle::kDirection));
  }
}

std::string clause_text(const Clause& clause, Particle subject, Form form, const Asked& asked) {
  Words words;
  const bool has_time = clause.time || clause.year != 0;
  if (has_time && clause.time_first) words.push_back(time_text(clause));
  if (clause.kind == ClauseKind::kExistence) {
    words.push_back(location_text(clause.place, Particle::kGoal));
  } else if (clause.place_first) {
    words.push_back(location_text(clause.place, Particle::kPlace));
  }
  if (!asked.subject.empty()) words.push_back(asked.subject);
  if (!clause.subject.empty()) words.push_back(group_text(clause.subject, subject));
  if (has_time && !clause.time_first) words.push_back(time_text(clause));
  add_complements(words, clause);
  if (!asked.complement.empty()) words.push_back(asked.complement);
  words.push_back(inflect(predicate_of(clause), clause.tense, form));
  return join(words);
}

std::string main_clause(const Clause& clause, Form form) {
  const bool existence = clause.kind == ClauseKind::kExistence;
  return clause_text(clause, existence ? Particle::kSubject : Particle::kTopic, form);
}

Asked asked_in(const Sentence& sentence) {
  switch (sentence.kind) {
    case SentenceKind::kStatement:
    case SentenceKind::kYesNo:
      return {};
    case SentenceKind::kWho:
      return {"누가", ""};
    case SentenceKind::kWhom:
      return {"", "누구를"};
    case SentenceKind::kWhat:
      return {"", "무엇을"};
    case SentenceKind::kWhere:
      break;
  }
  switch (sentence.clauses.front().verb->frame) {
    case Frame::kGoal:
      return {"", "어디에"};
    case Frame::kDirection:
      return {"", "어디로"};
    default:
      return {"", "어디에서"};
  }
}

Form form_of(Link link) { return link == Link::kAnd ? Form::kAnd : Form::kBut; }

// Clauses in order, each reason moved before the clause it explains.
std::string statement_text(const Sentence& sentence) {
  Words words;
  for (size_t i = 0; i < sentence.clauses.size(); ++i) {
    size_t next = i + 1;
    if (i < sentence.links.size() && sentence.links[i] == Link::kBecause) {
      words.push_back(clause_text(sentence.clauses[next], Particle::kSubject, Form::kBecause));
      ++next;
    }
    const bool last = next == sentence.clauses.size();
    words.push_back(main_clause(sentence.clauses[i],
                                last ? Form::kStatement : form_of(sentence.links[next - 1])));
    i = next - 1;
  }
  return join(words);
}

}  // namespace

std::string to_korean(const Sentence& sentence) {
  if (sentence.kind == SentenceKind::kStatement) return statement_text(sentence) + ".";
  const Clause& clause = sentence.clauses.front();
  const Particle subject =
      clause.kind == ClauseKind::kExistence ? Particle::kSubject : Particle::kTopic;
  return clause_text(clause, subject, Form::kQuestion, asked_in(sentence)) + "?";
}

}  // namespace headwise::data::grammar
