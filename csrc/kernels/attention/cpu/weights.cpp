// Attention weights on request, rebuilt from the log-sum-exp; dropout plays no part.
#include "csrc/kernels/attention/cpu/rows.h"
#include "csrc/kernels/attention/cpu/vector_ops.h"
#include "csrc/kernels/attention/plan.h"

namespace headwise::kernels {

namespace {

template <typename T>
struct Scratch {
  cpu::Arena arena;
  cpu::Rows<T> rows;
  T* scores;

  Scratch(const WeightsParams<T>& params, void* memory)
      : arena(memory), rows(params, arena), scores(arena.take<T>(params.sequences.key_rows)) {}
};

}  // namespace

template <typename T>
Plan plan(const WeightsParams<T>& params) {
  const Sequences& sequences = params.sequences;
  const Phase weights{sequences.count * params.heads, Scratch<T>(params, nullptr).arena.bytes(),
                      sequences.query_rows * sequences.key_rows * params.width};
  return {"cpu/rows", cpu::instruction_set(), {weights}};
}

template <typename T>
void run(const WeightsParams<T>& params, size_t /*phase*/, int64_t item, void* memory) {
  const int64_t b = item % params.sequences.count, h = item / params.sequences.count;
  Scratch<T> scratch(params, memory);
  scratch.rows.load(b, params.group_of(h));
  const Span& span = scratch.rows.query_span();
  for (int64_t i = 0; i < span.length; ++i) {
    const cpu::VisibleKeys<T> keys = scratch.rows.visible(h, i);
    scratch.rows.score(h, i, keys, scratch.rows.query(h, i), scratch.scores);
    cpu::exp_minus(scratch.scores, keys.count, *params.lse.at(b, h, span.first + i));
    for (int64_t k = 0; k < keys.count; ++k) {
      params.weights.at(b, h, i, keys.columns[k]) = scratch.scores[k];
    }
  }
}

template Plan plan(const WeightsParams<float>&);
template Plan plan(const WeightsParams<double>&);
template void run(const WeightsParams<float>&, size_t, int64_t, void*);
template void run(const WeightsParams<double>&, size_t, int64_t, void*);

}  // namespace headwise::kernels
