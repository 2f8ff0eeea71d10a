#include "src/model/dropout_streams.h"

#include <ATen/ops/scalar_tensor.h>

namespace headwise::model {

DropoutStreams::DropoutStreams(uint64_t seed)
    : seed_(at::scalar_tensor(int64_t(seed), at::TensorOptions(at::kLong))) {}

}  // namespace headwise::model
