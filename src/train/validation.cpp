#include "src/train/validation.h"

#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "src/evaluate/scorer.h"
#include "src/evaluate/translator.h"
#include "src/metrics/corpus_scores.h"
#include "src/model/packed.h"
#include "src/train/micro_batches.h"

namespace headwise::train {

ValidationResult validate(model::Transformer& model, const data::Vocabularies& vocabularies,
                          const data::EncodedCorpus& pairs, const data::ParallelText& text,
                          const config::Config& config, const SafePoint& safe_point) {
  const auto start = std::chrono::steady_clock::now();
  const evaluate::CorpusLoss loss =
      evaluate::corpus_loss(model, pairs, batching_of(config.train, vocabularies),
                            config.train.label_smoothing, safe_point);
  ValidationResult result;
  result.nll = loss.nll / double(loss.labels);
  result.smoothed = loss.smoothed / double(loss.labels);

  // A model without finite scores has nothing to search for.
  if (config.validation.bleu && std::isfinite(result.nll)) {
    evaluate::TranslateOptions options;
    options.decoding = config.translate;
    options.decoding.beam = config.validation.beam;
    options.decoding.long_lines = config::LongLines::kSplit;
    options.max_length = config.data.max_length;
    evaluate::Translator translator(model::pack(model), vocabularies, options);
    std::vector<std::string> outputs;
    for (evaluate::TranslatedLine& line : translator.translate(text.source, safe_point)) {
      outputs.push_back(std::move(line.nbest.front().text));
    }
    metrics::Options scoring;
    scoring.lowercase = config.validation.lowercase;
    result.bleu = metrics::bleu(outputs, text.target, scoring).score;
  }
  result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return result;
}

}  // namespace headwise::train
