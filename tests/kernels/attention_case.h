// A random attention problem for the kernels, with everything that must not be read poisoned by
// NaN: gaps between strided numbers, rows and keys past a length, keys that no row may see,
// gradients of rows that see nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "csrc/kernels/attention/plan.h"
#include "tests/kernels/buffers.h"
#include "tests/kernels/random.h"

namespace headwise::testing {

/// Which axes of (B, H, T_q, T_k) an element tensor has, the others broadcast.
struct Axes {
  bool batch = false, head = false, row = false, column = true;
};

/// What holds NaN or infinity although something sees it: keys or values that are hidden for some
/// rows only, or one row of queries or of the output's gradient.
enum class Poison { kNone, kKeys, kValues, kQueries, kGradients };

struct Spec {
  std::string name = "";
  int64_t batch = 2, heads = 2, kv_heads = 2, queries = 5, keys = 7, width = 8, value_width = 8;
  bool packed = false, lengths = false;
  std::vector<int64_t> query_lengths = {}, key_lengths = {};  // empty = random
  bool causal = false, align_end = true;
  int64_t left = -1, right = -1;
  std::optional<Axes> mask = std::nullopt, bias = std::nullopt;
  bool keep = false;        // the mask names visible keys
  bool hide_tiles = false;  // the mask hides rectangles of 60 x 150, not single entries
  bool float_bias = false;  // float bias for inputs of another type
  double dropout = 0.0;
  double scale = 0.0;      // 0 = 1 / sqrt(width)
  double magnitude = 1.0;  // of queries and keys
  bool lse_gradient = false;
  int beam = 0;  // 1: a cache row per sequence, 2: per position
  Layout layout = Layout::kHeadsFirst, gradient_layout = Layout::kHeadsFirst;
  Poison poison = Poison::kNone;
  uint64_t seed = 1;
};

template <typename T>
class Case {
 public:
  explicit Case(const Spec& spec);

  const Spec& spec() const { return spec_; }
  const kernels::AttentionInputs<T>& inputs() const { return inputs_; }

  /// Params whose results lie in this object, not yet written.
  kernels::ForwardParams<T> forward();
  /// Needs a forward run before.
  kernels::BackwardParams<T> backward();
  kernels::WeightsParams<T> weights();

  /// Numbers from the first entry of the bias gradient to the end of its memory.
  size_t bias_span() const { return spec_.bias ? bias_gradient_.span() : 0; }
  /// Whether number n of them is an entry, not a guard.
  bool bias_has(size_t n) const { return bias_gradient_.owns(n); }
  /// Whether nothing around the results was touched.
  bool guards_hold() const;
  /// Whether all results of rows that exist are equal bit for bit. The other may be packed.
  bool same_results(const Case& other) const;
  /// The same without the gradient of the bias and the weights on request.
  bool same_rows(const Case& other) const;

 private:
  using C = kernels::Compute<T>;

  void fill_positions();
  void fill_inputs();
  void fill_mask();
  void fill_bias();
  void poison();
  void poison_seen_keys();
  void poison_seen_rows();
  int64_t rows_that_see(int64_t b, int64_t group, int64_t j) const;
  bool sees(int64_t b, int64_t h, int64_t i) const;
  template <typename U>
  Buffer<U> tensor(int64_t stream, const Sizes& sizes, double magnitude, Layout layout);
  template <typename U>
  Result<U> result(int64_t heads, bool key_side, int64_t width) const;
  Sizes element_sizes(const Axes& axes) const;
  Random stream(int64_t n) const { return {static_cast<int64_t>(spec_.seed), n}; }

  Spec spec_;
  std::vector<int64_t> query_lengths_, key_lengths_, query_starts_, key_starts_;
  std::vector<int32_t> beam_rows_;
  Buffer<uint8_t> mask_;
  Buffer<T> bias_;
  Buffer<float> float_bias_;
  Buffer<T> query_, key_, value_, output_gradient_;
  Buffer<C> lse_gradient_;
  Result<T> output_, query_gradient_, key_gradient_, value_gradient_, weights_;
  Result<C> lse_, bias_gradient_;
  kernels::AttentionInputs<T> inputs_;
};

/// The edges of the contract on small sizes; sizes that cross every border of the tiling; and
/// `count` seeded random combinations of all features.
std::vector<Spec> edge_specs();
std::vector<Spec> long_specs();
std::vector<Spec> random_specs(int count, uint64_t seed);

}  // namespace headwise::testing
