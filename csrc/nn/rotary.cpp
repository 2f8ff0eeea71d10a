#include "csrc/nn/rotary.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <cmath>

namespace headwise::nn {

std::pair<at::Tensor, at::Tensor> rotary_table(const at::Tensor& positions, int64_t width,
                                               at::ScalarType type) {
  const at::Tensor pair = at::arange(0, width, 2, positions.options().dtype(type));
  const at::Tensor frequency = at::exp(pair * (-std::log(10000.0) / static_cast<double>(width)));
  const at::Tensor angle = positions.to(type).unsqueeze(-1) * frequency;
  return {at::cos(angle), at::sin(angle)};
}

at::Tensor rotate_by_position(const at::Tensor& heads, const at::Tensor& positions) {
  const int64_t width = heads.size(-1);
  TORCH_CHECK_VALUE(width % 2 == 0,
                    "rotary positions turn pairs of channels and need an even head ",
                    "width; head_dim is ", width);
  const at::ScalarType wide = heads.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto [cosines, sines] = rotary_table(positions, width, wide);
  const at::Tensor cosine = cosines.unsqueeze(-2), sine = sines.unsqueeze(-2);  // for every head
  const auto halves = heads.to(wide).chunk(2, -1);
  return at::cat({halves[0] * cosine - halves[1] * sine, halves[1] * cosine + halves[0] * sine}, -1)
      .to(heads.scalar_type());
}

at::Tensor packed_positions(const at::Tensor& starts, int64_t tokens) {
  const at::Tensor wide = starts.to(at::kLong);
  const at::Tensor begins = wide.narrow(0, 0, wide.size(0) - 1);
  const at::Tensor own_begin = at::repeat_interleave(begins, wide.diff(), 0, tokens);
  return at::arange(tokens, wide.options()) - own_begin;
}

}  // namespace headwise::nn
