#include "csrc/ops/dropout.h"

#include <ATen/ops/randint.h>
#include <c10/util/Exception.h>

#include <limits>

namespace headwise::ops {

void check_dropout(const char* op, const DropoutOptions& options, const at::Tensor& like) {
  const auto& [probability, seed, offset] = options;
  TORCH_CHECK_VALUE(probability >= 0.0 && probability < 1.0, op, ": dropout is ", probability,
                    "; it must be at least 0 and below 1");
  TORCH_CHECK_VALUE(offset >= 0 && offset < (int64_t{1} << 32), op, ": offset is ", offset,
                    "; it must be at least 0 and below 2^32");
  TORCH_CHECK_VALUE(!options.drops() || seed.has_value(), op, ": dropout is ", probability,
                    " and no seed came; the op without _forward draws one, this one needs it");
  if (!seed.has_value()) return;
  TORCH_CHECK_VALUE(
      seed->scalar_type() == at::kLong && seed->dim() == 0 && seed->device() == like.device(), op,
      ": seed is ", seed->scalar_type(), " of shape ", seed->sym_sizes(), " on ", seed->device(),
      "; it must be a 0-dim int64 tensor on ", like.device());
}

DropoutOptions with_seed(const DropoutOptions& options, const at::Tensor& like) {
  if (!options.drops() || options.seed.has_value()) return options;
  return {options.probability,
          at::randint(std::numeric_limits<int64_t>::max(), {}, like.options().dtype(at::kLong)),
          options.offset};
}

kernels::Dropout dropout_numbers(const DropoutOptions& options) {
  kernels::Dropout dropout;
  if (!options.drops()) return dropout;
  dropout.seed = static_cast<uint64_t>(*options.seed->const_data_ptr<int64_t>());
  dropout.offset = static_cast<uint32_t>(options.offset.guard_int(__FILE__, __LINE__));
  dropout.threshold = kernels::dropout_threshold(options.probability);
  return dropout;
}

}  // namespace headwise::ops
