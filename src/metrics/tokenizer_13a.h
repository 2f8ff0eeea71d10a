// The tokenizer of mteval-v13a, WMT's standard for BLEU, in the form sacreBLEU gave it.
#pragma once

#include <string>

namespace headwise::metrics {

/// Returns `line` with spaces around the tokens (several in a row are possible; see split()).
std::u32string tokenize_13a(std::u32string line);

}  // namespace headwise::metrics
