#include "src/evaluate/batch_tensors.h"

#include <ATen/ATen.h>

namespace headwise::evaluate {
namespace {

template <typename T>
at::Tensor view_of(const std::vector<T>& values, at::ScalarType type) {
  // from_blob wants a mutable pointer; nothing writes through these tensors.
  return at::from_blob(const_cast<T*>(values.data()), {static_cast<int64_t>(values.size())},
                       at::TensorOptions(type));
}

}  // namespace

model::PackedTokens tensors_of(const data::Packed& packed) {
  return {view_of(packed.tokens, at::kLong), view_of(packed.positions, at::kLong),
          view_of(packed.starts, at::kInt), packed.longest};
}

at::Tensor labels_of(const data::Batch& batch) { return view_of(batch.labels, at::kLong); }

}  // namespace headwise::evaluate
