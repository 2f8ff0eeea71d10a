// Clauses and whole sentences.
#include "src/data/grammar_draw.h"

#include <span>
#include <utility>

namespace headwise::data::grammar {
namespace {

// What a clause may hold where it stands.
struct Setting {
  bool front = false;    // time or place before the subject
  bool relative = true;  // relative clauses
  bool ability = true;   // can
  bool negative = true;
};

bool has_relative(const NounGroup& group) {
  return !group.empty() && group.back().relative != nullptr;
}

class SentenceDrawer {
 public:
  SentenceDrawer(Random& random, Pool pool)
      : random_(random), pool_(pool), phrases_(random, pool) {}

  Sentence statement();
  Sentence longer();
  Sentence question();

 private:
  Clause clause(const Setting& setting);
  Clause verb_clause(const Setting& setting);
  Clause adjective_clause();
  Clause role_clause();
  Clause age_clause();
  Clause existence_clause();
  void choose_tense(Clause& clause, const Setting& setting);
  void complete(Clause& clause);
  void add_place(Clause& clause, bool front);
  void add_time(Clause& clause, bool front);
  Link link();

  Random& random_;
  Pool pool_;
  PhraseDrawer phrases_;
};

void SentenceDrawer::choose_tense(Clause& clause, const Setting& setting) {
  const uint64_t draw = random_.below(100);
  clause.tense = draw < 48 ? Tense::kPast : draw < 78 ? Tense::kPresent : Tense::kFuture;
  clause.negative = setting.negative && random_.percent(14);
  if (setting.ability && clause.verb->frame != Frame::kState && random_.percent(7)) {
    clause.ability = true;
    clause.tense = Tense::kPresent;
  }
}

// The complements that the verb's frame asks for.
void SentenceDrawer::complete(Clause& clause) {
  const Verb& verb = *clause.verb;
  switch (verb.frame) {
    case Frame::kObject:
    case Frame::kState:
    case Frame::kActivity:
      break;
    case Frame::kGive:
      clause.recipient = random_.percent(50) ? NounGroup{phrases_.name()}
                                             : NounGroup{phrases_.noun(kPerson, false)};
      break;
    case Frame::kChange:
      clause.number = draw_long_number(random_, pool_);
      break;
    case Frame::kGoal:
    case Frame::kDirection: {
      if (random_.percent(20)) {
        clause.goal.name = draw_name(random_, pool_);
      } else {
        clause.goal = phrases_.place(verb.objects);
      }
      const bool travels = clause.subject.front().kind == NounPhrase::Kind::kName;
      if (travels && verb.frame == Frame::kGoal && random_.percent(40)) {
        clause.transport = &phrases_.fresh_noun(kRide);
      }
      break;
    }
  }
}

void SentenceDrawer::add_place(Clause& clause, bool front) {
  const Frame frame = clause.verb->frame;
  const bool fits = frame == Frame::kObject || frame == Frame::kActivity;
  if (!fits || !random_.percent(frame == Frame::kActivity ? 75 : 25)) return;
  const bool heavy = has_relative(clause.object);
  if (heavy && !front) return;
  clause.place = phrases_.place(kPlace);
  clause.place_first = front && (heavy || random_.percent(25));
}

void SentenceDrawer::add_time(Clause& clause, bool front) {
  if (clause.ability || clause.place_first || !random_.percent(55)) return;
  const bool heavy = has_relative(clause.object);
  if (front && clause.tense != Tense::kPresent && random_.percent(15)) {
    clause.time_first = true;
    clause.year = clause.tense == Tense::kPast ? draw_number(random_, pool_, 1900, 2019)
                                               : draw_number(random_, pool_, 2030, 2099);
    return;
  }
  std::vector<const TimeWord*> fitting;
  for (const TimeWord& word : time_words()) {
    if (word.tense == clause.tense && !(word.tense == Tense::kPresent && clause.negative)) {
      fitting.push_back(&word);
    }
  }
  if (fitting.empty()) return;
  const TimeWord* word = random_.pick(fitting);
  if (!word->frequency && heavy && !front) return;
  clause.time = word;
  clause.time_first = !word->frequency && front && (heavy || random_.percent(35));
}

Clause SentenceDrawer::verb_clause(const Setting& setting) {
  Clause clause;
  clause.verb = &random_.pick(verbs());
  choose_tense(clause, setting);
  clause.subject = phrases_.subject(clause.verb->subjects, setting.relative);
  const bool relative = setting.relative && !has_relative(clause.subject);
  const Frame frame = clause.verb->frame;
  if (clause.verb->objects != 0 && frame != Frame::kGoal && frame != Frame::kDirection) {
    const bool last = frame == Frame::kObject || frame == Frame::kState;
    clause.object = phrases_.object(clause.verb->objects, relative && last);
  }
  complete(clause);
  settle_tense(clause, agreement_of(clause.subject));
  add_place(clause, setting.front);
  add_time(clause, setting.front);
  const bool free = !has_relative(clause.object) && clause.recipient.empty();
  if (free && frame != Frame::kChange && random_.percent(8)) {
    clause.companion = draw_name(random_, pool_);
  }
  return clause;
}

Clause SentenceDrawer::adjective_clause() {
  Clause clause;
  clause.kind = ClauseKind::kAdjective;
  do {
    clause.adjective = &random_.pick(adjectives());
  } while (*clause.adjective->stem == '\0');
  clause.tense = random_.percent(50) ? Tense::kPast : Tense::kPresent;
  clause.negative = random_.percent(20);
  clause.subject = phrases_.subject(clause.adjective->classes, true);
  for (NounPhrase& phrase : clause.subject) phrase.adjective = nullptr;
  return clause;
}

Clause SentenceDrawer::role_clause() {
  Clause clause;
  clause.kind = ClauseKind::kRole;
  clause.tense = random_.percent(50) ? Tense::kPast : Tense::kPresent;
  clause.negative = random_.percent(25);
  clause.subject = {phrases_.name()};
  if (random_.percent(15)) clause.subject.front().kind = NounPhrase::Kind::kI;
  clause.role = phrases_.noun(kPerson, false).noun;
  return clause;
}

Clause SentenceDrawer::age_clause() {
  Clause clause;
  clause.kind = ClauseKind::kAge;
  clause.tense = random_.percent(30) ? Tense::kPast : Tense::kPresent;
  clause.subject = {phrases_.name()};
  clause.number = draw_number(random_, pool_, 11, 99);
  return clause;
}

Clause SentenceDrawer::existence_clause() {
  Clause clause;
  clause.kind = ClauseKind::kExistence;
  clause.tense = random_.percent(50) ? Tense::kPast : Tense::kPresent;
  clause.negative = random_.percent(20);
  const bool alive = random_.percent(50);
  NounPhrase thing = phrases_.noun(alive ? kPerson | kAnimal : kFood | kSmall, false);
  const bool mass = *thing.noun->plural == '\0';
  if (clause.negative || mass) {
    thing.determiner = Determiner::kNone;
  } else if (thing.determiner != Determiner::kCount) {
    thing.determiner = Determiner::kA;
  }
  clause.place = phrases_.place(alive ? kPlace : kSurface | kContainer);
  if (!alive) {
    const bool inside = clause.place.noun->classes & kContainer;
    clause.place.side = inside                ? Location::Side::kInside
                        : random_.percent(50) ? Location::Side::kOn
                                              : Location::Side::kUnder;
  }
  clause.subject = {std::move(thing)};
  return clause;
}

Clause SentenceDrawer::clause(const Setting& setting) {
  const uint64_t draw = random_.below(100);
  if (draw < 78) return verb_clause(setting);
  if (draw < 89) return adjective_clause();
  if (draw < 92) return role_clause();
  if (draw < 95) return age_clause();
  return existence_clause();
}

Link SentenceDrawer::link() {
  const uint64_t draw = random_.below(100);
  return draw < 40 ? Link::kAnd : draw < 70 ? Link::kBut : Link::kBecause;
}

Sentence SentenceDrawer::statement() {
  Sentence sentence;
  if (random_.percent(72)) {
    sentence.clauses.push_back(clause({.front = true}));
    return sentence;
  }
  const Setting short_clause{.relative = random_.percent(30)};
  sentence.clauses.push_back(clause(short_clause));
  sentence.links.push_back(link());
  sentence.clauses.push_back(clause(short_clause));
  return sentence;
}

Sentence SentenceDrawer::longer() {
  Sentence sentence;
  const int clauses = random_.percent(50) ? 3 : 4;
  for (int i = 0; i < clauses; ++i) {
    if (i > 0) {
      Link next = link();
      const bool after_reason = i > 1 && sentence.links.back() == Link::kBecause;
      if (after_reason && next == Link::kBecause) next = Link::kAnd;
      sentence.links.push_back(next);
    }
    sentence.clauses.push_back(clause({}));
  }
  return sentence;
}

Sentence SentenceDrawer::question() {
  Sentence sentence;
  const Setting plain{.relative = false, .ability = true, .negative = false};
  const uint64_t draw = random_.below(100);
  if (draw < 10) {
    sentence.kind = SentenceKind::kYesNo;
    Clause asked;
    do {
      asked = random_.percent(50) ? adjective_clause() : role_clause();
    } while (agreement_of(asked.subject) != Agreement::kThird);  // "Am I", "Were" would be too rare
    asked.negative = false;
    sentence.clauses.push_back(std::move(asked));
    return sentence;
  }
  sentence.clauses.push_back(verb_clause(plain));
  Clause& asked = sentence.clauses.back();
  const Frame frame = asked.verb->frame;
  if (draw < 50) {
    sentence.kind = SentenceKind::kYesNo;
  } else if (draw < 65) {
    sentence.kind = SentenceKind::kWho;
    asked.subject.clear();
  } else if (frame == Frame::kGoal || frame == Frame::kDirection || frame == Frame::kActivity) {
    sentence.kind = SentenceKind::kWhere;
    asked.goal = asked.place = {};
  } else if (frame == Frame::kObject) {
    const bool person =
        asked.object.front().kind == NounPhrase::Kind::kName || asked.verb->objects == kPerson;
    sentence.kind = person ? SentenceKind::kWhom : SentenceKind::kWhat;
    asked.object.clear();
  } else {
    sentence.kind = SentenceKind::kYesNo;
  }
  return sentence;
}

}  // namespace

Sentence draw_sentence(Random& random, Pool pool, bool longer) {
  SentenceDrawer drawer(random, pool);
  if (longer) return drawer.longer();
  return random.percent(16) ? drawer.question() : drawer.statement();
}

}  // namespace headwise::data::grammar
