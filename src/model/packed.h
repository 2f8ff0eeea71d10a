// A model as translating wants it: weights packed for whole steps instead of modules.
#pragma once

#include <memory>

#include "csrc/ops/packed_transformer.h"
#include "src/model/transformer.h"

namespace headwise::model {

/// What the model computes in evaluation, as it is now. Embeddings may be shared with the model,
/// everything else is copied.
/// @throws c10::Error for weights that are neither float32 nor float64.
std::unique_ptr<PackedTransformer> pack(const Transformer& model);

}  // namespace headwise::model
