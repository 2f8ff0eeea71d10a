// A random attention problem for the kernels, with everything that must not be read poisoned by
// NaN: gaps between strided numbers, rows and keys past a length, keys that no row may see,
// gradients of rows that see nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "csrc/kernels/attention/params.h"

namespace headwise::testing {

enum class Layout { kHeadsFirst, kRowsFirst, kStridedColumns };  // of every tensor in memory

/// Which axes of (B, H, T_q, T_k) an element tensor has, the others broadcast.
struct Axes {
  bool batch = false, head = false, row = false, column = true;
};

struct Spec {
  std::string name = "";
  int64_t batch = 2, heads = 2, kv_heads = 2, queries = 5, keys = 7, width = 8, value_width = 8;
  bool packed = false, lengths = false;
  bool causal = false, align_end = true;
  int64_t left = -1, right = -1;
  std::optional<Axes> mask = std::nullopt, bias = std::nullopt;
  bool keep = false;        // the mask names visible keys
  bool float_bias = false;  // float bias for double inputs
  double dropout = 0.0;
  double scale = 0.0;      // 0 = 1 / sqrt(width)
  double magnitude = 1.0;  // of queries and keys
  bool lse_gradient = false;
  int beam = 0;  // 1: a cache row per sequence, 2: per position
  Layout layout = Layout::kHeadsFirst;
  uint64_t seed = 1;
};

/// One tensor with its memory.
template <typename T>
struct Buffer {
  std::vector<T> memory;
  kernels::View<T> view;
};

template <typename T>
class Case {
 public:
  explicit Case(const Spec& spec);

  const Spec& spec() const { return spec_; }
  const kernels::AttentionInputs<T>& inputs() const { return inputs_; }

  /// Params whose results lie in this object, filled with a number no result has.
  kernels::ForwardParams<T> forward();
  /// Needs a forward run before.
  kernels::BackwardParams<T> backward();
  kernels::WeightsParams<T> weights();

  size_t bias_size() const { return bias_gradient_.memory.size(); }
  /// Whether output, LSE and all gradients are equal bit for bit.
  bool same_results(const Case& other) const;

 private:
  void fill_positions();
  void fill_inputs();
  void fill_mask();
  void fill_bias();
  void poison();
  bool seen(int64_t b, int64_t group, int64_t j) const;
  bool sees(int64_t b, int64_t h, int64_t i) const;
  double normal() { return normal_(generator_); }
  int64_t below(int64_t n) { return std::uniform_int_distribution<int64_t>(0, n - 1)(generator_); }
  Buffer<T> tensor(int64_t batch, int64_t heads, int64_t rows, int64_t width, double magnitude,
                   Layout layout);
  Buffer<T> result(int64_t heads, bool key_side, int64_t width);

  Spec spec_;
  std::mt19937_64 generator_;
  std::normal_distribution<double> normal_;
  std::vector<int64_t> query_lengths_, key_lengths_, query_starts_, key_starts_;
  std::vector<int32_t> beam_rows_;
  std::vector<uint8_t> mask_;
  std::vector<T> bias_;
  std::vector<float> float_bias_;
  Buffer<T> query_, key_, value_, output_gradient_, lse_gradient_;
  Buffer<T> output_, lse_, query_gradient_, key_gradient_, value_gradient_, bias_gradient_,
      weights_;
  kernels::AttentionInputs<T> inputs_;
};

/// The edges of the contract, and `random` seeded combinations of its features.
std::vector<Spec> edge_specs();
std::vector<Spec> random_specs(int count, uint64_t seed);

}  // namespace headwise::testing
