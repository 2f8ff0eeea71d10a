// Bias, activation and dropout in one pass over the rows each way.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "csrc/kernels/activation_dropout/cpu/activation_dropout.cpp"
#include <hwy/foreach_target.h>
// Highway's headers must follow foreach_target.h.
#include "csrc/kernels/activation_dropout/params.h"
#include "csrc/kernels/cpu/instruction_set.h"
#include "csrc/kernels/cpu/row_dropout-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename C>
void activate(const ActivationDropoutParams<C>& in, int64_t item, const Memory& memory) {
  const Tag<C> d;
  const RowDropout<C> dropout(in.dropout, in.width, static_cast<uint16_t*>(memory.scratch));
  const bool relu = in.activation == RowActivation::kRelu;
  const RowBlock block = row_block(item, in.rows);
  for (int64_t n = block.begin; n < block.end; ++n) {
    dropout.draw(n);
    const C* from = in.x + n * in.stride;
    C* to = in.y + n * in.stride;
    for (int64_t i = 0; i < in.width; i += lanes<C>()) {
      Vec<C> x = hn::LoadU(d, from + i);
      if (in.bias != nullptr) x = hn::Add(x, hn::LoadU(d, in.bias + i));
      // The second operand is what x86 returns when one is NaN.
      if (relu) x = hn::Max(hn::Zero(d), x);
      hn::StoreU(dropout(x, i), d, to + i);
    }
  }
}

template <typename C>
void deactivate(const ActivationDropoutGradientParams<C>& in, int64_t item, const Memory& memory) {
  const Tag<C> d;
  const RowDropout<C> dropout(in.dropout, in.width, static_cast<uint16_t*>(memory.scratch));
  const bool relu = in.activation == RowActivation::kRelu;
  const Vec<C> factor = hn::Set(d, static_cast<C>(dropout_scale(in.dropout)));
  C* const sums = static_cast<C*>(memory.workspace) + item * in.stride;
  if (in.bias_gradient != nullptr) std::fill_n(sums, in.stride, C{0});
  const RowBlock block = row_block(item, in.rows);
  for (int64_t n = block.begin; n < block.end; ++n) {
    if (!relu) dropout.draw(n);
    const C* from = in.y_gradient + n * in.stride;
    C* to = in.x_gradient + n * in.stride;
    for (int64_t i = 0; i < in.width; i += lanes<C>()) {
      Vec<C> g = hn::LoadU(d, from + i);
      if (relu) {
        const auto stopped = hn::Le(hn::LoadU(d, in.y + n * in.stride + i), hn::Zero(d));
        g = hn::IfThenZeroElse(stopped, hn::Mul(g, factor));
      } else {
        g = dropout(g, i);
      }
      hn::StoreU(g, d, to + i);
      if (in.bias_gradient == nullptr) continue;
      hn::StoreU(hn::Add(hn::LoadU(d, sums + i), g), d, sums + i);
    }
  }
}

template <typename C>
void deactivate_phase(const void* params, int64_t phase, int64_t item, const Memory& memory) {
  const auto& in = *static_cast<const ActivationDropoutGradientParams<C>*>(params);
  if (phase == 0) return deactivate(in, item, memory);
  add_blocks(static_cast<const C*>(memory.workspace), row_blocks(in.rows), in.stride, in.width,
             in.bias_gradient);
}

void run_activate(ElementType type, const void* params, int64_t item, const Memory& memory) {
  if (type == ElementType::kDouble) {
    activate(*static_cast<const ActivationDropoutParams<double>*>(params), item, memory);
  } else {
    activate(*static_cast<const ActivationDropoutParams<float>*>(params), item, memory);
  }
}
void run_deactivate(ElementType type, const void* params, int64_t phase, int64_t item,
                    const Memory& memory) {
  const bool is_double = type == ElementType::kDouble;
  (is_double ? deactivate_phase<double> : deactivate_phase<float>)(params, phase, item, memory);
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise::kernels {
namespace cpu {
HWY_EXPORT(run_activate);
HWY_EXPORT(run_deactivate);
namespace {

/// Phase over all rows, scratch for one row's random bits.
template <typename Params>
Phase all_rows(const Params& params, bool draws) {
  constexpr int64_t kCost = 8;  // of a number, in multiplications
  return {row_blocks(params.rows), draws ? row_bits(params.width) * sizeof(uint16_t) : 0,
          kBlockRows * params.width * kCost};
}

}  // namespace
}  // namespace cpu

template <typename C>
Plan plan(const ActivationDropoutParams<C>& params) {
  Plan plan{"cpu/activation_dropout", cpu::instruction_set(), {}};
  plan.phases.push_back(cpu::all_rows(params, params.dropout.threshold != 0));
  return plan;
}

template <typename C>
void run(const ActivationDropoutParams<C>& params, size_t /*phase*/, const ItemRange& items,
         const Memory& memory) {
  for (int64_t item = items.begin; item < items.end; ++item) {
    HWY_DYNAMIC_DISPATCH(cpu::run_activate)(kElementType<C>, &params, item, memory);
  }
}

template <typename C>
Plan plan(const ActivationDropoutGradientParams<C>& params) {
  Plan plan{"cpu/activation_dropout", cpu::instruction_set(), {}};
  plan.phases.push_back(cpu::all_rows(
      params, params.dropout.threshold != 0 && params.activation == RowActivation::kNone));
  if (params.bias_gradient == nullptr) return plan;
  const int64_t blocks = cpu::row_blocks(params.rows);
  plan.workspace_bytes = blocks * params.stride * sizeof(C);
  plan.phases.push_back({1, 0, blocks * params.width});
  return plan;
}

template <typename C>
void run(const ActivationDropoutGradientParams<C>& params, size_t phase, const ItemRange& items,
         const Memory& memory) {
  for (int64_t item = items.begin; item < items.end; ++item) {
    HWY_DYNAMIC_DISPATCH(cpu::run_deactivate)
    (kElementType<C>, &params, static_cast<int64_t>(phase), item, memory);
  }
}

template Plan plan(const ActivationDropoutParams<float>&);
template Plan plan(const ActivationDropoutParams<double>&);
template Plan plan(const ActivationDropoutGradientParams<float>&);
template Plan plan(const ActivationDropoutGradientParams<double>&);
template void run(const ActivationDropoutParams<float>&, size_t, const ItemRange&, const Memory&);
template void run(const ActivationDropoutParams<double>&, size_t, const ItemRange&, const Memory&);
template void run(const ActivationDropoutGradientParams<float>&, size_t, const ItemRange&,
                  const Memory&);
template void run(const ActivationDropoutGradientParams<double>&, size_t, const ItemRange&,
                  const Memory&);

}  // namespace headwise::kernels
#endif  // HWY_ONCE
