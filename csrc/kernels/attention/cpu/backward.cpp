// Backward pass, one query row at a time; the weights are rebuilt from the log-sum-exp. With P the
// weights, F the dropout factors, g and e the gradients of output and log-sum-exp:
//   W  = F (g V^T)                     gradient of the weights
//   dS = P (W - sum(P W) + e)          gradient of the scores; dBias is its sum where the bias
//   broadcasts dV = (P F)^T g,   dQ = scale dS K,   dK = scale dS^T Q
// sum(P W) is taken over the row and not as output · g: the two errors of dS then cancel in the
// sums. One item owns the gradients of one key/value head of one sequence, so nothing is added
// concurrently.
#include <algorithm>

#include "csrc/kernels/attention/cpu/rows.h"
#include "csrc/kernels/attention/cpu/vector_ops.h"
#include "csrc/kernels/attention/plan.h"

namespace headwise::kernels {

namespace {

template <typename T>
struct Scratch {
  cpu::Arena arena;
  cpu::Rows<T> rows;
  T* weights;          // P, then P F
  T* score_gradient;   // dS
  T* output_gradient;  // contiguous copy of one row of g

  Scratch(const BackwardParams<T>& params, void* memory)
      : arena(memory),
        rows(params, arena),
        weights(arena.take<T>(params.sequences.key_rows)),
        score_gradient(arena.take<T>(params.sequences.key_rows)),
        output_gradient(arena.take<T>(params.value_width)) {}
};

/// One query row, its pieces as the gradients need them.
template <typename T>
struct RowGradient {
  cpu::VisibleKeys<T> keys;
  const T* query = nullptr;            // (D)
  const T* output_gradient = nullptr;  // (D_v)
};

/// Fills scratch.weights with P F and scratch.score_gradient with dS of row i.
template <typename T>
RowGradient<T> differentiate(const BackwardParams<T>& params, Scratch<T>& scratch, int64_t b,
                             int64_t h, int64_t i) {
  RowGradient<T> row;
  row.keys = scratch.rows.visible(h, i);
  if (row.keys.count == 0) return row;
  const int64_t count = row.keys.count, q = scratch.rows.query_span().first + i;
  row.query = scratch.rows.query(h, i);
  row.output_gradient =
      cpu::contiguous_row(params.output_gradient.at(b, h, q), params.output_gradient.column,
                          params.value_width, scratch.output_gradient);
  T* weights = scratch.weights;
  scratch.rows.score(h, i, row.keys, row.query, weights);
  // The sum is 1 but for the rounding of the log-sum-exp, which is divided away.
  const T sum = cpu::exp_minus(weights, count, *params.lse.at(b, h, q));
  for (int64_t k = 0; k < count; ++k) weights[k] /= sum;

  T* gradient = scratch.score_gradient;
  cpu::dot_rows(row.output_gradient, row.keys.values, count, params.value_width, gradient);
  scratch.rows.draw(h, i, row.keys);
  scratch.rows.drop(row.keys, gradient);
  T shift = 0;
  for (int64_t k = 0; k < count; ++k) shift += weights[k] * gradient[k];
  if (params.lse_gradient.data != nullptr) shift -= *params.lse_gradient.at(b, h, q);
  for (int64_t k = 0; k < count; ++k) gradient[k] = weights[k] * (gradient[k] - shift);
  scratch.rows.drop(row.keys, weights);
  return row;
}

template <typename T>
void clear_rows(const View<T>& view, int64_t b, int64_t h, const Span& span, int64_t width) {
  for (int64_t i = 0; i < span.rows; ++i) std::fill_n(view.at(b, h, span.first + i), width, T{0});
}

template <typename T>
void add_row(const BackwardParams<T>& params, Scratch<T>& scratch, int64_t b, int64_t h,
             int64_t i) {
  T* query_gradient = params.query_gradient.at(b, h, scratch.rows.query_span().first + i);
  const RowGradient<T> row = differentiate(params, scratch, b, h, i);
  if (row.keys.count == 0) {
    std::fill_n(query_gradient, params.width, T{0});
    return;
  }
  const int64_t group = params.group_of(h), first = scratch.rows.key_span().first;
  cpu::add_outer(scratch.weights, row.output_gradient, row.keys.count, params.value_width,
                 row.keys.columns, params.value_gradient.at(b, group, first),
                 params.value_gradient.row);
  const T scale = static_cast<T>(params.scale);
  for (int64_t k = 0; k < row.keys.count; ++k) scratch.score_gradient[k] *= scale;
  cpu::add_outer(scratch.score_gradient, row.query, row.keys.count, params.width, row.keys.columns,
                 params.key_gradient.at(b, group, first), params.key_gradient.row);
  cpu::sum_rows(scratch.score_gradient, row.keys.keys, row.keys.count, params.width,
                query_gradient);
}

/// dQ, dK, dV of sequence b and key/value head `group`.
template <typename T>
void input_gradients(const BackwardParams<T>& params, Scratch<T>& scratch, int64_t b,
                     int64_t group) {
  scratch.rows.load(b, group);
  clear_rows(params.key_gradient, b, group, scratch.rows.key_span(), params.width);
  clear_rows(params.value_gradient, b, group, scratch.rows.key_span(), params.value_width);
  const int64_t group_size = params.heads / params.kv_heads;
  for (int64_t h = group * group_size; h < (group + 1) * group_size; ++h) {
    for (int64_t i = 0; i < scratch.rows.query_span().rows; ++i) add_row(params, scratch, b, h, i);
  }
}

/// How many sequences, and how many heads, have bias entries of their own.
template <typename T>
int64_t bias_sequences(const BackwardParams<T>& params) {
  return params.bias_gradient.batch == 0 ? 1 : params.sequences.count;
}
template <typename T>
int64_t bias_heads(const BackwardParams<T>& params) {
  return params.bias_gradient.head == 0 ? 1 : params.heads;
}

/// The bias gradient of one (sequence, head) of the bias, summed in order over all that share it.
template <typename T>
void bias_gradient(const BackwardParams<T>& params, Scratch<T>& scratch, int64_t item) {
  const int64_t sequences = bias_sequences(params), heads = bias_heads(params);
  for (int64_t b = item / heads; b < params.sequences.count; b += sequences) {
    for (int64_t h = item % heads; h < params.heads; h += heads) {
      scratch.rows.load(b, params.group_of(h));
      for (int64_t i = 0; i < scratch.rows.query_span().length; ++i) {
        const RowGradient<T> row = differentiate(params, scratch, b, h, i);
        for (int64_t k = 0; k < row.keys.count; ++k) {
          params.bias_gradient.at(b, h, i, row.keys.columns[k]) += scratch.score_gradient[k];
        }
      }
    }
  }
}

}  // namespace

template <typename T>
Plan plan(const BackwardParams<T>& params) {
  const Sequences& sequences = params.sequences;
  const size_t bytes = Scratch<T>(params, nullptr).arena.bytes();
  const int64_t pairs = sequences.query_rows * sequences.key_rows;
  const int64_t pair_cost = 3 * params.width + 2 * params.value_width;
  const int64_t group_size = params.kv_heads == 0 ? 0 : params.heads / params.kv_heads;
  Plan plan{"cpu/rows", cpu::instruction_set(), {}};
  plan.phases.push_back({sequences.count * params.kv_heads, bytes, group_size * pairs * pair_cost});
  if (params.bias_gradient.data != nullptr) {
    plan.phases.push_back({bias_sequences(params) * bias_heads(params), bytes, pairs * pair_cost});
  }
  return plan;
}

template <typename T>
void run(const BackwardParams<T>& params, size_t phase, int64_t item, void* memory) {
  Scratch<T> scratch(params, memory);
  if (phase == 0) {
    input_gradients(params, scratch, item % params.sequences.count, item / params.sequences.count);
  } else {
    bias_gradient(params, scratch, item);
  }
}

template Plan plan(const BackwardParams<float>&);
template Plan plan(const BackwardParams<double>&);
template void run(const BackwardParams<float>&, size_t, int64_t, void*);
template void run(const BackwardParams<double>&, size_t, int64_t, void*);

}  // namespace headwise::kernels
