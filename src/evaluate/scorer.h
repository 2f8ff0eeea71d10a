// Forced scoring: how probable a model finds given translations.
#pragma once

#include <cstdint>
#include <vector>

#include "src/config/interrupt.h"
#include "src/data/batcher.h"
#include "src/model/transformer.h"

namespace headwise::evaluate {

struct CorpusLoss {
  double nll = 0;       // sum of -ln p over all labels, end tokens included
  double smoothed = 0;  // the same with label smoothing
  int64_t labels = 0;
  double mean_nll() const { return labels > 0 ? nll / double(labels) : 0; }
};

/// Loss of a whole corpus in evaluation mode. `safe_point` is called between batches.
CorpusLoss corpus_loss(model::Transformer& model, const data::EncodedCorpus& corpus,
                       const data::BatcherOptions& batching, double smoothing,
                       const SafePoint& safe_point);

/// ln p(target | source) of each pair, in the corpus' order.
std::vector<double> score_pairs(model::Transformer& model, const data::EncodedCorpus& corpus,
                                const data::BatcherOptions& batching, const SafePoint& safe_point);

}  // namespace headwise::evaluate
