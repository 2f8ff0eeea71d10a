// Attention weights on request, rebuilt from the log-sum-exp; dropout plays no part.
#include <algorithm>
#include <numeric>

#include "csrc/kernels/attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "csrc/kernels/attention/cpu/weights.cpp"
#include <hwy/foreach_target.h>
// Highway's headers must follow foreach_target.h.
#include "csrc/kernels/attention/cpu/scores-inl.h"
#include "csrc/kernels/attention/cpu/weights_layout.h"
#include "csrc/kernels/cpu/instruction_set.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// The weights of one head, a tile of rows at a time. The log-sum-exp makes them 1 in sum but for
// its rounding, which is divided away.
template <typename T>
class WeightsOfHead {
  using C = Compute<T>;
  static constexpr int64_t kParts = 16;

 public:
  WeightsOfHead(const WeightsParams<T>& params, int64_t item, const Memory& memory)
      : in_(params),
        arena_(memory.scratch),
        buffers_(arena_, params),
        h_(item / params.sequences.count),
        b_(item % params.sequences.count),
        queries_(params.sequences.query(b_)),
        keys_(params.sequences.key(b_).length) {}

  void run() {
    for (int64_t row = 0; row < queries_.length; row += kTileRows) {
      const int64_t left = queries_.length - row;
      const TileRows rows{h_, row, left, 0, std::min(kTileRows, left)};
      set_rows(rows);
      for (int64_t key = 0; key < keys_; key += kTileKeys) sum_tile(rows, key);
      for (int64_t key = 0; key < keys_; key += kTileKeys) {
        if (keys_ <= kTileKeys || exponentiate(rows, key)) leave_tile(key);
      }
    }
  }

 private:
  // exp(score - log-sum-exp) of one tile; false if its rows see nothing of it.
  bool exponentiate(const TileRows& rows, int64_t key) {
    const Tag<C> d;
    tile_ = {b_, rows, key, std::min(kTileKeys, keys_ - key)};
    look(in_, tile_, buffers_.elements, view_);
    if (view_.empty()) return false;
    const KeyPlace place{b_, in_.group_of(h_), key, tile_.keys};
    const RowList<T> keys = key_rows(in_, in_.key, place, in_.width, buffers_.rows);
    score_product<C>(view_, left_operand(keys, buffers_.keys), buffers_.transposed_queries,
                     in_.width, buffers_.scores);
    for (int64_t r = 0; r < view_.rows(); r += lanes<C>()) {
      const ScoreColumn<C> column = column_of(d, in_, view_, r, buffers_.scores, buffers_.elements);
      const Vec<C> minus = shift_of(hn::LoadU(d, buffers_.lse + r));
      for (int64_t j = column.range.begin; j < column.range.end; ++j) {
        hn::StoreU(weight_of(column.score(j), minus), d, column.scores + j * kTileRows);
      }
    }
    return true;
  }

  void set_rows(const TileRows& rows) {
    tile_ = {b_, rows, 0, 0};
    pack_transposed<T>(query_rows(in_.query, tile_, queries_, in_.width, buffers_.rows),
                       buffers_.transposed_queries);
    for (int64_t r = 0; r < rows.count; ++r) {
      buffers_.lse[r] = *in_.lse.at(b_, h_, queries_.first + rows.row(r));
    }
    std::fill_n(buffers_.sums, kTileRows, C{0});
  }

  void sum_tile(const TileRows& rows, int64_t key) {
    if (!exponentiate(rows, key)) return;
    for (int64_t r = 0; r < view_.rows(); ++r) {
      const C* scores = buffers_.scores + r;
      C parts[kParts] = {};  // one long chain of sums would lose digits
      for (int64_t j = view_.row(r).begin; j < view_.row(r).end; ++j) {
        parts[j % kParts] += scores[j * kTileRows];
      }
      buffers_.sums[r] += std::accumulate(parts, parts + kParts, C{0});
    }
  }

  void leave_tile(int64_t key) {
    for (int64_t r = 0; r < view_.rows(); ++r) {
      const C* scores = buffers_.scores + r;
      T* to = in_.weights.at(b_, h_, tile_.rows.row(r)) + key;
      for (int64_t j = view_.row(r).begin; j < view_.row(r).end; ++j) {
        const C weight = scores[j * kTileRows];
        to[j] = from_compute<T>(weight == 0 ? C{0} : weight / buffers_.sums[r]);
      }
    }
  }

  const WeightsParams<T>& in_;
  Arena arena_;
  WeightsBuffers<T> buffers_;
  const int64_t h_, b_;
  const Span queries_;
  const int64_t keys_;
  TilePlace tile_;
  TileView view_;
};

template <typename T>
void weights_of(const void* params, int64_t item, const Memory& memory) {
  WeightsOfHead<T>(*static_cast<const WeightsParams<T>*>(params), item, memory).run();
}

void run_weights(ElementType type, const void* params, const ItemRange& items,
                 const Memory& memory) {
  visit(type, [&](auto number) {
    using T = decltype(number);
    for (int64_t item = items.begin; item < items.end; ++item) weights_of<T>(params, item, memory);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise::kernels {
namespace cpu {
HWY_EXPORT(run_weights);
}  // namespace cpu

template <typename T>
Plan plan(const WeightsParams<T>& params) {
  cpu::Arena arena(nullptr);
  const cpu::WeightsBuffers<T> buffers(arena, params);
  const Sequences& s = params.sequences;
  return {"cpu/tiles",
          cpu::instruction_set(),
          {{s.count * params.heads, arena.bytes(), s.query_rows * s.key_rows * params.width}}};
}

template <typename T>
void run(const WeightsParams<T>& params, size_t /*phase*/, const ItemRange& items,
         const Memory& memory) {
  HWY_DYNAMIC_DISPATCH(cpu::run_weights)(kElementType<T>, &params, items, memory);
}

template Plan plan(const WeightsParams<float>&);
template Plan plan(const WeightsParams<double>&);
template Plan plan(const WeightsParams<BFloat16>&);
template Plan plan(const WeightsParams<Half>&);
template void run(const WeightsParams<float>&, size_t, const ItemRange&, const Memory&);
template void run(const WeightsParams<double>&, size_t, const ItemRange&, const Memory&);
template void run(const WeightsParams<BFloat16>&, size_t, const ItemRange&, const Memory&);
template void run(const WeightsParams<Half>&, size_t, const ItemRange&, const Memory&);

}  // namespace headwise::kernels
#endif  // HWY_ONCE
