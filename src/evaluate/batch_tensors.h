// data::Batch -> the tensors the model takes.
#pragma once

#include "src/data/batch.h"
#include "src/model/transformer.h"

namespace headwise::evaluate {

/// Tensors that alias `packed`'s vectors: they must not outlive it.
model::PackedTokens tensors_of(const data::Packed& packed);

/// (N) int64 labels, aliasing `batch`.
at::Tensor labels_of(const data::Batch& batch);

}  // namespace headwise::evaluate
