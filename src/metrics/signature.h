// The line that says how a score was made, in sacreBLEU's words.
#pragma once

#include <string>
#include <string_view>

#include "src/metrics/corpus_scores.h"

namespace headwise::metrics {

/// "nrefs:1|case:mixed|" + details + "|version:headwise-…".
std::string signature_of(const Options& options, std::string_view details);

}  // namespace headwise::metrics
