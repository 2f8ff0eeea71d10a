#include "src/evaluate/decoding_step.h"

namespace headwise::evaluate {

decode::StepFunction step_of(Decoding& decoding, const PackedTransformer& model, int32_t eos) {
  return [&decoding, &model, eos, choices = DecodeChoices()](const decode::StepRows& rows,
                                                             decode::StepPicks& picks) mutable {
    decoding.step({rows.tokens, rows.parents, rows.may_end, rows.forbidden, eos, rows.wanted},
                  choices);
    picks.vocabulary = model.pieces();
    picks.width = choices.wanted;
    picks.counts = choices.counts;
    picks.picks.clear();
    for (const DecodeChoices::Choice& choice : choices.choices) {
      picks.picks.push_back({choice.log_probability, choice.token});
    }
  };
}

}  // namespace headwise::evaluate
