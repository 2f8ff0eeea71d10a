// Attention weights on request, rebuilt from the log-sum-exp; dropout plays no part.
#include <algorithm>

#include "csrc/kernels/attention/plan.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "csrc/kernels/attention/cpu/weights.cpp"
#include <hwy/foreach_target.h>
// Highway's headers must follow foreach_target.h.
#include "csrc/kernels/attention/cpu/instruction_set.h"
#include "csrc/kernels/attention/cpu/scores-inl.h"
#include "csrc/kernels/attention/cpu/weights_layout.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// One row of scores becomes weights.
template <typename C>
HWY_INLINE void rebuild_row(C* scores, const KeyRange& range, C lse) {
  const Tag<C> d;
  const KeyRange vectors = whole_vectors<C>(range);
  const Vec<C> minus = hn::Set(d, lse);
  for (int64_t j = vectors.begin; j < vectors.end; j += static_cast<int64_t>(hn::Lanes(d))) {
    hn::StoreU(exp_score(hn::Sub(hn::LoadU(d, scores + j), minus)), d, scores + j);
  }
}

template <typename T>
void weights_of_tile(const WeightsParams<T>& p, const TilePlace& tile, WeightsBuffers<T>& buffers) {
  using C = Compute<T>;
  TileView view;
  look(p, tile, buffers.elements, view);
  if (view.empty()) return;
  const Span queries = p.sequences.query(tile.b);
  const int64_t width = round_up_to_vectors<C>(p.width);
  list_query_rows(p.query, tile, queries, buffers.rows);
  pack_rows<T>({buffers.rows, tile.rows.count, p.width, p.query.column}, width, buffers.queries);
  list_key_rows(p, p.key, tile.b, p.group_of(tile.rows.first_head), tile.first_key, tile.keys,
                buffers.rows);
  pack_transposed<T>({buffers.rows, tile.keys, p.width, p.key.column}, buffers.keys,
                     buffers.copies);
  score_product<C>(view, {buffers.queries, width, 1}, buffers.keys, tile.keys, p.width,
                   buffers.scores);
  for (int64_t r = 0; r < view.rows; ++r) {
    const KeyRange& range = view.row[r];
    if (range.begin == range.end) continue;
    const int64_t h = tile.rows.head(r), i = tile.rows.row(r);
    C* scores = buffers.scores + r * kTileKeys;
    finish_scores<C>(scores, range, static_cast<C>(p.scale),
                     buffers.elements == nullptr ? nullptr : buffers.elements + r * kTileKeys);
    rebuild_row<C>(scores, range, *p.lse.at(tile.b, h, queries.first + i));
    T* to = p.weights.at(tile.b, h, i) + tile.first_key;
    for (int64_t j = range.begin; j < range.end; ++j) to[j] = from_compute<T>(scores[j]);
  }
}

template <typename T>
void weights_of(const void* erased, int64_t item, const Memory& memory) {
  const auto& p = *static_cast<const WeightsParams<T>*>(erased);
  Arena arena(memory.scratch);
  WeightsBuffers<T> buffers(arena, p);
  TilePlace tile;
  tile.b = item % p.sequences.count;
  const int64_t h = item / p.sequences.count;
  const int64_t rows = p.sequences.query(tile.b).length, keys = p.sequences.key(tile.b).length;
  for (tile.first_key = 0; tile.first_key < keys; tile.first_key += kTileKeys) {
    tile.keys = std::min(kTileKeys, keys - tile.first_key);
    for (int64_t row = 0; row < rows; row += kTileRows) {
      tile.rows = {h, row, rows - row, 0, std::min(kTileRows, rows - row)};
      weights_of_tile(p, tile, buffers);
    }
  }
}

void run_weights(ElementType type, const void* params, int64_t item, const Memory& memory) {
  switch (type) {
    case ElementType::kFloat:
      return weights_of<float>(params, item, memory);
    case ElementType::kDouble:
      return weights_of<double>(params, item, memory);
    case ElementType::kBFloat16:
      return weights_of<BFloat16>(params, item, memory);
    case ElementType::kHalf:
      return weights_of<Half>(params, item, memory);
  }
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
void run(const WeightsParams<T>& params, size_t /*phase*/, int64_t item, const Memory& memory) {
  HWY_DYNAMIC_DISPATCH(cpu::run_weights)(kElementType<T>, &params, item, memory);
}

template Plan plan(const WeightsParams<float>&);
template Plan plan(const WeightsParams<double>&);
template Plan plan(const WeightsParams<BFloat16>&);
template Plan plan(const WeightsParams<Half>&);
template void run(const WeightsParams<float>&, size_t, int64_t, const Memory&);
template void run(const WeightsParams<double>&, size_t, int64_t, const Memory&);
template void run(const WeightsParams<BFloat16>&, size_t, int64_t, const Memory&);
template void run(const WeightsParams<Half>&, size_t, int64_t, const Memory&);

}  // namespace headwise::kernels
#endif  // HWY_ONCE
