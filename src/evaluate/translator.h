// Lines in, lines out: subwords, batches by length, search, and back into the order of the input.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "csrc/ops/packed_transformer.h"
#include "src/config/config.h"
#include "src/config/interrupt.h"
#include "src/data/subword.h"
#include "src/decode/search.h"

namespace headwise::evaluate {

struct TranslateOptions {
  config::TranslateConfig decoding;
  int64_t nbest = 1;
  int64_t max_length = 256;  // source pieces with end token the model was trained for
  std::string prefix;        // forced start of every output that is not empty
};

/// One output for a line. Blank lines (data::is_blank, or without a piece) give one empty
/// translation with score 0.
struct Translation {
  std::string text;
  double log_probability = 0, score = 0;
  bool finished = true;
};

struct TranslatedLine {
  std::vector<Translation> nbest;
  int64_t parts = 1;  // > 1: the line was over the limit and was translated in parts
};

/// Translates with one packed model, or several as one (csrc/ops/ensemble.h). Results do not depend
/// on which lines share a batch.
class Translator {
 public:
  Translator(std::unique_ptr<PackedTransformer> model, data::Vocabularies vocabularies,
             TranslateOptions options);

  /// @param first_line 1-based number of lines[0], for messages.
  /// @throws UserError naming the line that is over the limit when long lines are refused;
  ///   Interrupted from `safe_point`, which is called at every decoding step.
  std::vector<TranslatedLine> translate(const std::vector<std::string>& lines,
                                        const SafePoint& safe_point, int64_t first_line = 1);

 private:
  /// One searchable piece of input: a whole line, or a part of a long one.
  struct Part {
    size_t line = 0;
    data::Ids ids;
    bool begins_line = true;
  };

  std::vector<Part> cut_into_parts(const std::vector<std::string>& lines, int64_t first_line) const;
  /// Numbers of parts, in this order, as many in a batch as fit.
  std::vector<std::vector<size_t>> batches_of(const std::vector<Part>& parts,
                                              const std::vector<size_t>& order) const;
  /// Every batch once, one thread each: small operations cannot share threads well.
  void side_by_side(const std::vector<std::vector<size_t>>& batches,
                    const std::function<void(const std::vector<size_t>&)>& translate);
  decode::SearchRequest request_for(const Part& part) const;
  std::vector<std::vector<decode::Hypothesis>> search_batch(
      const std::vector<data::Ids>& sources, const std::vector<decode::SearchRequest>& requests,
      const SafePoint& safe_point);

  std::unique_ptr<PackedTransformer> model_;
  data::Vocabularies vocabularies_;
  TranslateOptions options_;
  data::Ids prefix_;
};

}  // namespace headwise::evaluate
