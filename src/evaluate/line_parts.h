// A source line cut into parts the model can take, and parts put together again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "src/data/subword.h"

namespace headwise::evaluate {

/// Pieces of `line` in parts of at most `limit` pieces (limit >= 1), in order, nothing lost. Cuts
/// fall after the last sentence end inside the limit, else before the last word begin, else at the
/// limit.
std::vector<data::Ids> parts_of(const std::string& line, const data::Subword& subword,
                                int64_t limit);

}  // namespace headwise::evaluate
