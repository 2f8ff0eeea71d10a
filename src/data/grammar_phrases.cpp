// Noun phrases: determiners, adjectives, numbers, names and relative clauses.
#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

#include "src/data/grammar_draw.h"

namespace headwise::data::grammar {
namespace {

// One of the entries of `from` that `fits`.
template <typename Entry, typename Fits>
const Entry* pick_fitting(Random& random, std::span<const Entry> from, const Fits& fits) {
  std::vector<const Entry*> fitting;
  for (const Entry& entry : from) {
    if (fits(entry)) fitting.push_back(&entry);
  }
  return fitting.empty() ? nullptr : random.pick(fitting);
}

NounPhrase numbered(Random& random, Pool pool, NounPhrase::Kind kind) {
  NounPhrase phrase;
  phrase.kind = kind;
  phrase.number = kind == NounPhrase::Kind::kNumeral ? draw_long_number(random, pool)
                                                     : draw_number(random, pool, 11, 999);
  return phrase;
}

// A verb that some of these subjects can do to some of these objects.
const Verb* draw_verb(Random& random, uint32_t subjects, uint32_t objects) {
  return pick_fitting(random, verbs(), [&](const Verb& verb) {
    const bool plain = verb.frame == Frame::kObject || verb.frame == Frame::kState;
    return plain && verb.subjects & subjects && verb.objects & objects;
  });
}

}  // namespace

void settle_tense(Clause& clause, Agreement agreement) {
  const bool same = std::string(clause.verb->base) == clause.verb->past;
  if (same && clause.tense == Tense::kPresent && agreement != Agreement::kThird) {
    clause.tense = Tense::kPast;
  }
}

const Noun& PhraseDrawer::fresh_noun(uint32_t classes) {
  const auto unused = [&](const Noun& noun) {
    return noun.classes & classes && std::ranges::find(used_, &noun) == used_.end();
  };
  const Noun* noun = pick_fitting(random_, nouns(), unused);
  if (!noun) {
    noun = pick_fitting(random_, nouns(), [&](const Noun& n) { return n.classes & classes; });
  }
  if (!noun) throw std::logic_error("no noun has the classes a verb asks for");
  used_.push_back(noun);
  return *noun;
}

void PhraseDrawer::determine(NounPhrase& phrase) {
  const bool mass = *phrase.noun->plural == '\0';
  const bool countable = *phrase.noun->counter != '\0';
  const uint64_t draw = random_.below(100);
  if (draw < 16 && countable) {
    phrase.determiner = Determiner::kCount;
    phrase.number = random_.percent(55) ? random_.between(1, kLargestWordNumber)
                                        : draw_long_number(random_, pool_);
  } else if (draw < 26) {
    phrase.determiner = Determiner::kOwner;
    phrase.name = draw_name(random_, pool_);
  } else if (draw < 34) {
    phrase.determiner = Determiner::kThis;
  } else if (draw < 72) {
    phrase.determiner = Determiner::kThe;
  } else {
    phrase.determiner = mass ? Determiner::kNone : Determiner::kA;
  }
}

// Null when no verb takes such a noun.
std::shared_ptr<const Clause> PhraseDrawer::relative_clause(const NounPhrase& head) {
  auto clause = std::make_shared<Clause>();
  const uint32_t classes = head.noun->classes;
  clause->negative = random_.percent(10);
  const uint64_t draw = random_.below(100);
  clause->tense = draw < 55 ? Tense::kPast : draw < 80 ? Tense::kPresent : Tense::kFuture;
  const bool acts = classes & (kPerson | kAnimal) && random_.percent(50);
  clause->verb = acts ? draw_verb(random_, classes, ~0u) : draw_verb(random_, kPerson, classes);
  if (!clause->verb) return nullptr;
  if (acts) {
    clause->object = object(clause->verb->objects, false);
    if (clause->object.size() > 1)
      clause->object.pop_back();  // "and" could reach beyond the clause
    settle_tense(*clause, agreement_of({head}));
  } else {
    clause->subject = subject(kPerson, false);
    settle_tense(*clause, agreement_of(clause->subject));
  }
  return clause;
}

NounPhrase PhraseDrawer::noun(uint32_t classes, bool relative) {
  NounPhrase phrase;
  phrase.noun = &fresh_noun(classes);
  determine(phrase);
  if (random_.percent(30)) {
    const uint32_t kinds = phrase.noun->classes;
    phrase.adjective =
        pick_fitting(random_, adjectives(), [&](const Adjective& a) { return a.classes & kinds; });
  }
  const bool bare = phrase.determiner == Determiner::kThe || phrase.determiner == Determiner::kA ||
                    phrase.determiner == Determiner::kCount;
  if (relative && bare && random_.percent(28)) phrase.relative = relative_clause(phrase);
  return phrase;
}

NounPhrase PhraseDrawer::name() {
  NounPhrase phrase;
  phrase.kind = NounPhrase::Kind::kName;
  phrase.name = draw_name(random_, pool_);
  return phrase;
}

NounGroup PhraseDrawer::subject(uint32_t classes, bool relative) {
  const uint64_t draw = classes & kPerson ? random_.below(100) : 99;
  if (draw < 38) return {name()};
  if (draw < 44) return {name(), name()};
  if (draw < 56) {
    if (std::exchange(pronoun_used_, true)) return {name()};
    NounPhrase pronoun;
    pronoun.kind = draw < 51 ? NounPhrase::Kind::kI : NounPhrase::Kind::kWe;
    return {pronoun};
  }
  if (draw < 60) {
    NounPhrase first = noun(classes, false);
    return {std::move(first), noun(classes, false)};
  }
  NounPhrase phrase = noun(classes, relative);
  // "Bread was ..." would open too few sentences to be learnt.
  if (phrase.determiner == Determiner::kNone) phrase.determiner = Determiner::kThe;
  return {std::move(phrase)};
}

NounGroup PhraseDrawer::object(uint32_t classes, bool relative) {
  const uint64_t draw = random_.below(100);
  if (classes == kNumeral || (classes & kNumeral && draw < 35)) {
    return {numbered(random_, pool_, NounPhrase::Kind::kNumeral)};
  }
  if (classes & kPage && draw < 35) return {numbered(random_, pool_, NounPhrase::Kind::kPage)};
  if (classes & kBus && draw < 35) return {numbered(random_, pool_, NounPhrase::Kind::kBus)};
  if (classes & kPerson && draw < 60) return {name()};
  if (draw >= 90) {
    NounPhrase first = noun(classes, false);
    return {std::move(first), noun(classes, false)};
  }
  return {noun(classes, relative)};
}

Location PhraseDrawer::place(uint32_t classes) {
  Location location;
  location.noun = &fresh_noun(classes);
  return location;
}

}  // namespace headwise::data::grammar
