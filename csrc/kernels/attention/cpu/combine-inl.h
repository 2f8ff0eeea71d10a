// Decoding: the splits of the keys become one result.
#if defined(HEADWISE_ATTENTION_COMBINE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_COMBINE_INL_H
#undef HEADWISE_ATTENTION_COMBINE_INL_H
#else
#define HEADWISE_ATTENTION_COMBINE_INL_H
#endif

#include <algorithm>
#include <cmath>
#include <limits>

#include "csrc/kernels/attention/cpu/forward_layout.h"
#include "csrc/kernels/cpu/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// Combines the splits of one group, in the order of the keys.
template <typename T>
void combine(const ForwardParams<T>& p, int64_t item, void* workspace) {
  using C = Compute<T>;
  constexpr C kNothing = -std::numeric_limits<C>::infinity();
  const ForwardLayout layout(p);
  if (layout.splits == 1) return;
  const int64_t b = item / layout.groups, group = item % layout.groups;
  const Span queries = p.sequences.query(b);
  const auto split = [&](int64_t s) {
    return layout.template partial<C>({b, group, 0, s}, workspace);
  };
  const int64_t length = std::min(queries.length, layout.block_rows);
  for (int64_t h = 0; h < layout.group_size; ++h) {
    for (int64_t i = 0; i < queries.rows; ++i) {
      T* output = p.output.at(b, group * layout.group_size + h, queries.first + i);
      C& lse = *p.lse.at(b, group * layout.group_size + h, queries.first + i);
      C largest = kNothing, sum = 0;
      const int64_t n = h * length + i;
      for (int64_t s = 0; i < length && s < layout.splits; ++s) {
        largest = std::max(largest, split(s).largest[n]);
      }
      C total[256] = {};
      for (int64_t s = 0; i < length && s < layout.splits; ++s) {
        const ForwardPartial<C> part = split(s);
        if (part.largest[n] == kNothing && part.sum[n] == 0) continue;
        const C decay = hn::GetLane(exp_score(hn::Set(Tag<C>(), part.largest[n] - largest)));
        sum += decay * part.sum[n];
        const C* from = part.output + n * layout.value_width;
        for (int64_t d = 0; d < layout.value_width; ++d) total[d] += decay * from[d];
      }
      if (sum == 0) {
        std::fill_n(output, layout.value_width, from_compute<T>(0));
        lse = kNothing;
        continue;
      }
      lse = largest + std::log(sum);
      const C kept = static_cast<C>(dropout_scale(p.dropout));
      unpack_row<T>(total, kept / sum, layout.value_width, nullptr, output);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_ATTENTION_COMBINE_INL_H
