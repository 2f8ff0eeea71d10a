// Residual connection, dropout and layer norm in one pass over the rows each way. With g = dNormed
// weight and n the normalised row:
//   dSum = inverse (g - mean(g) - n mean(g n)) + the gradient that sum itself got
#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "csrc/kernels/residual_norm/cpu/residual_norm.cpp"
#include <hwy/foreach_target.h>
// Highway's headers must follow foreach_target.h.
#include "csrc/kernels/cpu/arena.h"
#include "csrc/kernels/cpu/instruction_set.h"
#include "csrc/kernels/cpu/row_dropout-inl.h"
#include "csrc/kernels/residual_norm/params.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename C>
class NormForward {
 public:
  NormForward(const ResidualNormParams<C>& params, const Memory& memory)
      : in_(params),
        dropout_(params.dropout, params.width, static_cast<uint16_t*>(memory.scratch)) {}

  void run(const RowBlock& block) const {
    for (int64_t n = block.begin; n < block.end; ++n) {
      dropout_.draw(n);
      const C mean = add(n) / static_cast<C>(in_.width);
      const C variance = squares(n, mean) / static_cast<C>(in_.width);
      in_.mean[n] = mean;
      in_.inverse[n] = 1 / std::sqrt(variance + static_cast<C>(in_.epsilon));
      normalise(n);
    }
  }

 private:
  // Leaves x + dropout(branch) and returns the sum of its numbers.
  C add(int64_t n) const {
    const Tag<C> d;
    const C *x = in_.x + n * in_.stride, *branch = in_.branch + n * in_.stride;
    C* to = in_.sum + n * in_.stride;
    Vec<C> total = hn::Zero(d);
    for (int64_t i = 0; i < in_.width; i += lanes<C>()) {
      const Vec<C> sum = hn::Add(hn::LoadU(d, x + i), dropout_(hn::LoadU(d, branch + i), i));
      hn::StoreU(sum, d, to + i);
      total = hn::Add(total, within(i, sum));
    }
    return sum_of_lanes<C>(total);
  }

  C squares(int64_t n, C mean) const {
    const Tag<C> d;
    const C* sum = in_.sum + n * in_.stride;
    const Vec<C> middle = hn::Set(d, mean);
    Vec<C> total = hn::Zero(d);
    for (int64_t i = 0; i < in_.width; i += lanes<C>()) {
      const Vec<C> x = within(i, hn::Sub(hn::LoadU(d, sum + i), middle));
      total = hn::MulAdd(x, x, total);
    }
    return sum_of_lanes<C>(total);
  }

  void normalise(int64_t n) const {
    const Tag<C> d;
    const C* sum = in_.sum + n * in_.stride;
    C* to = in_.normed + n * in_.stride;
    const Vec<C> mean = hn::Set(d, in_.mean[n]), inverse = hn::Set(d, in_.inverse[n]);
    for (int64_t i = 0; i < in_.width; i += lanes<C>()) {
      const Vec<C> x = hn::Mul(hn::Sub(hn::LoadU(d, sum + i), mean), inverse);
      hn::StoreU(hn::MulAdd(x, hn::LoadU(d, in_.weight + i), hn::LoadU(d, in_.bias + i)), d,
                 to + i);
    }
  }

  // x without what lies past the width.
  HWY_INLINE Vec<C> within(int64_t i, Vec<C> x) const {
    if (i + lanes<C>() <= in_.width) return x;
    return hn::IfThenElseZero(lanes_within<C>(i, 0, in_.width), x);
  }

  const ResidualNormParams<C>& in_;
  const RowDropout<C> dropout_;
};

template <typename C>
class NormBackward {
 public:
  NormBackward(const ResidualNormGradientParams<C>& params, const Memory& memory)
      : in_(params),
        dropout_(params.dropout, params.width, static_cast<uint16_t*>(memory.scratch)),
        column_sums_(static_cast<C*>(memory.workspace)) {}

  void run(int64_t item) const {
    C* const weight = column_sums_ + item * 2 * in_.stride;
    C* const bias = weight + in_.stride;
    std::fill_n(weight, 2 * in_.stride, C{0});
    const RowBlock block = row_block(item, in_.rows);
    for (int64_t n = block.begin; n < block.end; ++n) {
      dropout_.draw(n);
      differentiate(n, look(n, weight, bias));
    }
  }

  void add_columns() const {
    const int64_t blocks = row_blocks(in_.rows);
    add_blocks(column_sums_, blocks, 2 * in_.stride, in_.width, in_.weight_gradient);
    add_blocks(column_sums_ + in_.stride, blocks, 2 * in_.stride, in_.width, in_.bias_gradient);
  }

 private:
  struct Means {
    C gradient, product;  // of g, of g n
  };

  HWY_INLINE Vec<C> normalised(int64_t n, int64_t i) const {
    const Tag<C> d;
    const Vec<C> x = hn::LoadU(d, in_.sum + n * in_.stride + i);
    return hn::Mul(hn::Sub(x, hn::Set(d, in_.mean[n])), hn::Set(d, in_.inverse[n]));
  }
  HWY_INLINE Vec<C> given(int64_t n, int64_t i) const {
    const Vec<C> g = hn::LoadU(Tag<C>(), in_.normed_gradient + n * in_.stride + i);
    if (i + lanes<C>() <= in_.width) return g;
    return hn::IfThenElseZero(lanes_within<C>(i, 0, in_.width), g);
  }

  // Adds a row to the sums down the columns.
  Means look(int64_t n, C* weight, C* bias) const {
    const Tag<C> d;
    Vec<C> gradient = hn::Zero(d), product = hn::Zero(d);
    for (int64_t i = 0; i < in_.width; i += lanes<C>()) {
      const Vec<C> from = given(n, i), x = normalised(n, i);
      const Vec<C> g = hn::Mul(from, hn::LoadU(d, in_.weight + i));
      gradient = hn::Add(gradient, g);
      product = hn::MulAdd(g, x, product);
      hn::StoreU(hn::MulAdd(from, x, hn::LoadU(d, weight + i)), d, weight + i);
      hn::StoreU(hn::Add(from, hn::LoadU(d, bias + i)), d, bias + i);
    }
    const C width = static_cast<C>(in_.width);
    return {sum_of_lanes<C>(gradient) / width, sum_of_lanes<C>(product) / width};
  }

  void differentiate(int64_t n, const Means& means) const {
    const Tag<C> d;
    const int64_t row = n * in_.stride;
    const Vec<C> mean = hn::Set(d, means.gradient), product = hn::Set(d, means.product);
    const Vec<C> inverse = hn::Set(d, in_.inverse[n]);
    for (int64_t i = 0; i < in_.width; i += lanes<C>()) {
      const Vec<C> g = hn::Mul(given(n, i), hn::LoadU(d, in_.weight + i));
      const Vec<C> centred = hn::Sub(g, mean);
      Vec<C> x = hn::Mul(inverse, hn::NegMulAdd(normalised(n, i), product, centred));
      if (in_.sum_gradient != nullptr) x = hn::Add(x, hn::LoadU(d, in_.sum_gradient + row + i));
      hn::StoreU(x, d, in_.x_gradient + row + i);
      if (in_.branch_gradient == nullptr) continue;
      hn::StoreU(dropout_(x, i), d, in_.branch_gradient + row + i);
    }
  }

  const ResidualNormGradientParams<C>& in_;
  const RowDropout<C> dropout_;
  C* const column_sums_;  // (blocks, 2, stride): of the weight's gradient and the bias'
};

template <typename C>
void norm_forward(const void* params, int64_t item, const Memory& memory) {
  const auto& in = *static_cast<const ResidualNormParams<C>*>(params);
  NormForward<C>(in, memory).run(row_block(item, in.rows));
}

template <typename C>
void norm_backward(const void* params, int64_t phase, int64_t item, const Memory& memory) {
  const NormBackward<C> work(*static_cast<const ResidualNormGradientParams<C>*>(params), memory);
  if (phase == 0) {
    work.run(item);
  } else {
    work.add_columns();
  }
}

void run_norm_forward(ElementType type, const void* params, int64_t item, const Memory& memory) {
  const bool is_double = type == ElementType::kDouble;
  (is_double ? norm_forward<double> : norm_forward<float>)(params, item, memory);
}
void run_norm_backward(ElementType type, const void* params, int64_t phase, int64_t item,
                       const Memory& memory) {
  const bool is_double = type == ElementType::kDouble;
  (is_double ? norm_backward<double> : norm_backward<float>)(params, phase, item, memory);
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise::kernels {
namespace cpu {
HWY_EXPORT(run_norm_forward);
HWY_EXPORT(run_norm_backward);
namespace {

constexpr int64_t kForwardCost = 16, kBackwardCost = 32;  // of a number, in multiplications

size_t bits_bytes(const Dropout& dropout, int64_t width) {
  return dropout.threshold == 0 ? 0 : row_bits(width) * sizeof(uint16_t);
}

}  // namespace
}  // namespace cpu

template <typename C>
Plan plan(const ResidualNormParams<C>& params) {
  Plan plan{"cpu/residual_norm", cpu::instruction_set(), {}};
  plan.phases.push_back({cpu::row_blocks(params.rows),
                         cpu::bits_bytes(params.dropout, params.width),
                         cpu::kBlockRows * params.width * cpu::kForwardCost});
  return plan;
}

template <typename C>
void run(const ResidualNormParams<C>& params, size_t /*phase*/, const ItemRange& items,
         const Memory& memory) {
  for (int64_t item = items.begin; item < items.end; ++item) {
    HWY_DYNAMIC_DISPATCH(cpu::run_norm_forward)(kElementType<C>, &params, item, memory);
  }
}

template <typename C>
Plan plan(const ResidualNormGradientParams<C>& params) {
  Plan plan{"cpu/residual_norm", cpu::instruction_set(), {}};
  const int64_t blocks = cpu::row_blocks(params.rows);
  plan.workspace_bytes = blocks * 2 * params.stride * sizeof(C);
  plan.phases.push_back({blocks, cpu::bits_bytes(params.dropout, params.width),
                         cpu::kBlockRows * params.width * cpu::kBackwardCost});
  plan.phases.push_back({1, 0, 2 * blocks * params.width});
  return plan;
}

template <typename C>
void run(const ResidualNormGradientParams<C>& params, size_t phase, const ItemRange& items,
         const Memory& memory) {
  for (int64_t item = items.begin; item < items.end; ++item) {
    HWY_DYNAMIC_DISPATCH(cpu::run_norm_backward)
    (kElementType<C>, &params, static_cast<int64_t>(phase), item, memory);
  }
}

template Plan plan(const ResidualNormParams<float>&);
template Plan plan(const ResidualNormParams<double>&);
template Plan plan(const ResidualNormGradientParams<float>&);
template Plan plan(const ResidualNormGradientParams<double>&);
template void run(const ResidualNormParams<float>&, size_t, const ItemRange&, const Memory&);
template void run(const ResidualNormParams<double>&, size_t, const ItemRange&, const Memory&);
template void run(const ResidualNormGradientParams<float>&, size_t, const ItemRange&,
                  const Memory&);
template void run(const ResidualNormGradientParams<double>&, size_t, const ItemRange&,
                  const Memory&);

}  // namespace headwise::kernels
#endif  // HWY_ONCE
