// Validation: loss and, if wanted, BLEU of greedy or beam translations.
#pragma once

#include <optional>

#include "src/config/config.h"
#include "src/config/interrupt.h"
#include "src/data/batcher.h"
#include "src/data/corpus.h"
#include "src/data/subword.h"
#include "src/model/transformer.h"

namespace headwise::train {

struct ValidationResult {
  double nll = 0, smoothed = 0;  // per target piece
  std::optional<double> bleu;
  double seconds = 0;
};

/// `pairs` and `text` are the same sentences. @throws Interrupted from `safe_point`.
ValidationResult validate(model::Transformer& model, const data::Vocabularies& vocabularies,
                          const data::EncodedCorpus& pairs, const data::ParallelText& text,
                          const config::Config& config, const SafePoint& safe_point);

}  // namespace headwise::train
