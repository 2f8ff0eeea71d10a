// Several models that translate as one: a piece's probability is the mean of theirs.
#pragma once

#include <memory>
#include <vector>

#include "csrc/ops/packed_transformer.h"

namespace headwise {

/// A model of models with the same source and target pieces; their sizes may differ. One alone is
/// itself.
/// @throws c10::Error for no model, or for models with unequal numbers of target pieces.
std::unique_ptr<PackedTransformer> ensemble_of(
    std::vector<std::unique_ptr<PackedTransformer>> models);

}  // namespace headwise
