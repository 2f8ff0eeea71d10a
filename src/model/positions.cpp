#include "src/model/positions.h"

#include <ATen/ATen.h>

#include <cmath>

namespace headwise::model {

at::Tensor sinusoidal_table(int64_t length, int64_t width, const at::TensorOptions& options) {
  const auto wide = options.dtype(at::kDouble);
  const at::Tensor position = at::arange(length, wide).unsqueeze(1);
  const at::Tensor column = at::arange(0, width, 2, wide);
  const at::Tensor angle = position * at::exp(column * (-std::log(10000.0) / double(width)));
  at::Tensor table = at::empty({length, width}, wide);
  using at::indexing::None;
  using at::indexing::Slice;
  table.index_put_({Slice(), Slice(0, None, 2)}, at::sin(angle));
  table.index_put_({Slice(), Slice(1, None, 2)}, at::cos(angle).narrow(1, 0, width / 2));
  return table.to(options);
}

}  // namespace headwise::model
