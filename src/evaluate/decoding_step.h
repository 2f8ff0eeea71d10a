// A model's decoding as the search drives it.
#pragma once

#include "csrc/ops/packed_transformer.h"
#include "src/decode/search.h"

namespace headwise::evaluate {

/// Steps `decoding`, of a model with so many target pieces. Both must outlive the function.
decode::StepFunction step_of(Decoding& decoding, const PackedTransformer& model, int32_t eos);

}  // namespace headwise::evaluate
