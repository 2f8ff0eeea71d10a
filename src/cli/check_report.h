// What `headwise check` prints of a corpus, as text and as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "src/data/corpus_check.h"

namespace headwise::cli {

/// A checked corpus and what was asked of it.
struct CheckedCorpus {
  std::string name;  // "training", "validation"; empty for two files from the command line
  data::CorpusReport report;
  data::LengthLimits limits;
  bool pieces = false;             // a subword model was at hand
  std::vector<std::string> fatal;  // why training would refuse it
};

/// Several lines: each file with its findings, the pairs, the verdict.
std::string text_of_check(const CheckedCorpus& corpus);

nlohmann::ordered_json json_of_check(const CheckedCorpus& corpus);

}  // namespace headwise::cli
