// Rotary positions in one pass over the rows.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "csrc/kernels/rotary/cpu/rotary.cpp"
#include <hwy/foreach_target.h>
// Highway's headers must follow foreach_target.h.
#include "csrc/kernels/cpu/instruction_set.h"
#include "csrc/kernels/cpu/row_blocks.h"
#include "csrc/kernels/cpu/turn-inl.h"
#include "csrc/kernels/rotary/params.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename C>
void turn_rows(const RotaryParams<C>& in, const ItemRange& items) {
  const int64_t half = in.width / 2, row = in.heads * in.width;
  const C sign = in.inverse ? C{-1} : C{1};
  const int64_t end = std::min(items.end * kBlockRows, in.rows);
  for (int64_t n = items.begin * kBlockRows; n < end; ++n) {
    const int64_t angles = n % in.positions * half;
    for (int64_t at = n * row; at < (n + 1) * row; at += in.width) {
      turn(in.x + at, in.cosine + angles, in.sine + angles, sign, half, in.y + at);
    }
  }
}

void run_turn_rows(ElementType type, const void* params, const ItemRange& items) {
  if (type == ElementType::kDouble) {
    turn_rows(*static_cast<const RotaryParams<double>*>(params), items);
  } else {
    turn_rows(*static_cast<const RotaryParams<float>*>(params), items);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise::kernels {
namespace cpu {
HWY_EXPORT(run_turn_rows);
}  // namespace cpu

template <typename C>
Plan plan(const RotaryParams<C>& params) {
  constexpr int64_t kCost = 4;  // of a number, in multiplications
  Plan plan{"cpu/rotary", cpu::instruction_set(), {}};
  plan.phases.push_back(
      {cpu::row_blocks(params.rows), 0, cpu::kBlockRows * params.heads * params.width * kCost});
  return plan;
}

template <typename C>
void run(const RotaryParams<C>& params, size_t /*phase*/, const ItemRange& items,
         const Memory& /*memory*/) {
  HWY_DYNAMIC_DISPATCH(cpu::run_turn_rows)(kElementType<C>, &params, items);
}

template Plan plan(const RotaryParams<float>&);
template Plan plan(const RotaryParams<double>&);
template void run(const RotaryParams<float>&, size_t, const ItemRange&, const Memory&);
template void run(const RotaryParams<double>&, size_t, const ItemRange&, const Memory&);

}  // namespace headwise::kernels
#endif  // HWY_ONCE
