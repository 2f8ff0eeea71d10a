#include "csrc/nn/rotary.h"

#include <ATen/ATen.h>
#include <c10/util/accumulate.h>

#include <cmath>

#include "csrc/ops/rotary.h"

namespace headwise::nn {

RotaryTable rotary_table(const at::Tensor& positions, int64_t width, at::ScalarType type) {
  const at::ScalarType wide = type == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor pair = at::arange(0, width, 2, positions.options().dtype(wide));
  const at::Tensor frequency = at::exp(pair * (-std::log(10000.0) / static_cast<double>(width)));
  const at::Tensor angle = positions.to(wide).unsqueeze(-1) * frequency;
  return {at::cos(angle), at::sin(angle)};
}

at::Tensor rotate_by_position(const at::Tensor& heads, const RotaryTable& table) {
  if (!table.cosine.defined()) return heads;
  const int64_t count = heads.size(-2), width = heads.size(-1);
  const int64_t rows = c10::multiply_integers(heads.sizes().slice(0, heads.dim() - 2));
  return rotary(heads.reshape({rows, count, width}), table.cosine, table.sine).view(heads.sizes());
}

at::Tensor packed_positions(const at::Tensor& starts, int64_t tokens) {
  const at::Tensor wide = starts.to(at::kLong);
  const at::Tensor begins = wide.narrow(0, 0, wide.size(0) - 1);
  const at::Tensor own_begin = at::repeat_interleave(begins, wide.diff(), 0, tokens);
  return at::arange(tokens, wide.options()) - own_begin;
}

}  // namespace headwise::nn
