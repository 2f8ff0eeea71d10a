// Sentences drawn at random from the grammar.
#pragma once

#include <memory>
#include <vector>

#include "src/data/grammar_names.h"
#include "src/data/grammar_random.h"
#include "src/data/grammar_sentence.h"

namespace headwise::data::grammar {

/// A sentence of one or two clauses, or of three or four when `longer`.
Sentence draw_sentence(Random& random, Pool pool, bool longer);

/// Draws the noun phrases of one sentence; no noun comes twice.
class PhraseDrawer {
 public:
  PhraseDrawer(Random& random, Pool pool) : random_(random), pool_(pool) {}

  /// Who does it: a name, a noun, I or we.
  NounGroup subject(uint32_t classes, bool relative);
  /// To whom or what it is done, `classes` as the verb wants them.
  NounGroup object(uint32_t classes, bool relative);
  /// A noun with its determiner, adjective and perhaps a relative clause.
  NounPhrase noun(uint32_t classes, bool relative);
  NounPhrase name();
  Location place(uint32_t classes);
  /// A noun not yet used in this sentence, if the lexicon has one.
  const Noun& fresh_noun(uint32_t classes);

 private:
  void determine(NounPhrase& phrase);
  std::shared_ptr<const Clause> relative_clause(const NounPhrase& head);

  Random& random_;
  Pool pool_;
  std::vector<const Noun*> used_;
  bool pronoun_used_ = false;
};

/// The present of "I read" is spelt as its past: such a clause is put into the past.
void settle_tense(Clause& clause, Agreement agreement);

}  // namespace headwise::data::grammar
