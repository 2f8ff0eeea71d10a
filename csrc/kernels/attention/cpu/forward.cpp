// Forward pass, one query row at a time: scores, softmax, weighted sum of the values.
#include <algorithm>
#include <cmath>
#include <limits>

#include "csrc/kernels/attention/cpu/rows.h"
#include "csrc/kernels/attention/cpu/vector_ops.h"
#include "csrc/kernels/attention/plan.h"

namespace headwise::kernels {

namespace {

constexpr int64_t kRowsPerItem = 64;

template <typename T>
struct Scratch {
  cpu::Arena arena;
  cpu::Rows<T> rows;
  T* scores;

  Scratch(const ForwardParams<T>& params, void* memory)
      : arena(memory), rows(params, arena), scores(arena.take<T>(params.sequences.key_rows)) {}
};

template <typename T>
void attend(const ForwardParams<T>& params, Scratch<T>& scratch, int64_t b, int64_t h, int64_t i) {
  const int64_t row = scratch.rows.query_span().first + i;
  T* output = params.output.at(b, h, row);
  T& lse = *params.lse.at(b, h, row);
  const cpu::VisibleKeys<T> keys = scratch.rows.visible(h, i);
  if (keys.count == 0) {
    std::fill_n(output, params.value_width, T{0});
    lse = -std::numeric_limits<T>::infinity();
    return;
  }
  T* weights = scratch.scores;
  scratch.rows.score(h, i, keys, scratch.rows.query(h, i), weights);
  const T largest = *std::max_element(weights, weights + keys.count);
  const T sum = cpu::exp_minus(weights, keys.count, largest);
  lse = largest + std::log(sum);
  scratch.rows.draw(h, i, keys);
  scratch.rows.drop(keys, weights);
  cpu::sum_rows(weights, keys.values, keys.count, params.value_width, output);
  for (int64_t d = 0; d < params.value_width; ++d) output[d] /= sum;
}

}  // namespace

template <typename T>
Plan plan(const ForwardParams<T>& params) {
  const Sequences& sequences = params.sequences;
  const int64_t blocks = (sequences.query_rows + kRowsPerItem - 1) / kRowsPerItem;
  const int64_t pairs = std::min(kRowsPerItem, sequences.query_rows) * sequences.key_rows;
  const Phase attention{sequences.count * params.heads * blocks,
                        Scratch<T>(params, nullptr).arena.bytes(),
                        pairs * (params.width + params.value_width)};
  return {"cpu/rows", cpu::instruction_set(), {attention}};
}

template <typename T>
void run(const ForwardParams<T>& params, size_t /*phase*/, int64_t item, void* memory) {
  const int64_t b = item % params.sequences.count;
  const int64_t h = item / params.sequences.count % params.heads;
  const int64_t begin = item / params.sequences.count / params.heads * kRowsPerItem;
  const int64_t end = std::min(begin + kRowsPerItem, params.sequences.query(b).rows);
  if (begin >= end) return;
  Scratch<T> scratch(params, memory);
  scratch.rows.load(b, params.group_of(h));
  for (int64_t i = begin; i < end; ++i) attend(params, scratch, b, h, i);
}

template Plan plan(const ForwardParams<float>&);
template Plan plan(const ForwardParams<double>&);
template void run(const ForwardParams<float>&, size_t, int64_t, void*);
template void run(const ForwardParams<double>&, size_t, int64_t, void*);

}  // namespace headwise::kernels
