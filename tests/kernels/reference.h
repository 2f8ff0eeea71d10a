// The judge of every attention kernel: attention.h's definition, written as plain loops over whole
// score matrices, in any precision. It shares no code with the kernels; even the random bits are
// its own. In the kernel's own precision it is the plain formula that errors are compared with:
// then the weights (after dropout's choice) and the score gradients are rounded once to the
// inputs' type, where that has 16 bits.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "csrc/kernels/attention/params.h"

namespace headwise::testing {

using kernels::AttentionInputs;
using kernels::BackwardParams;

using Words = std::array<uint32_t, 4>;

/// Philox4x32-7, straight from the paper's equations. counter and key are in reading order.
inline Words reference_philox(Words c, std::array<uint32_t, 2> k) {
  for (int round = 0; round < 7; ++round) {
    const uint64_t p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
    c = {uint32_t(p1 >> 32) ^ c[1] ^ k[0], uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ k[1],
         uint32_t(p0)};
    k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
  }
  return c;
}

inline bool reference_keeps(const kernels::Dropout& dropout, int64_t head, int64_t i, int64_t j) {
  const Words words = reference_philox(
      {uint32_t(4 * (j / 32) + (j % 8) / 2), uint32_t(i), uint32_t(head), dropout.offset},
      {uint32_t(dropout.seed), uint32_t(dropout.seed >> 32)});
  const uint32_t word = words[(j % 32) / 8];
  return ((j % 2 != 0) ? word / 65536 : word % 65536) >= dropout.threshold;
}

/// Results of one sequence and head, computed in precision C.
template <typename C>
struct HeadResult {
  std::vector<C> output;                    // (T_q, D_v)
  std::vector<C> lse;                       // (T_q)
  std::vector<C> scores;                    // (T_q, T_k), scaled and biased; 0 where hidden
  std::vector<C> weights;                   // (T_q, T_k), before dropout
  std::vector<C> query, key, value, score;  // gradients; score is (T_q, T_k)
};

template <typename C, typename T>
class Reference {
 public:
  explicit Reference(const AttentionInputs<T>& inputs) : in_(inputs) {}

  bool visible(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t queries = in_.sequences.query(b).length, keys = in_.sequences.key(b).length;
    if (i >= queries || j >= keys) return false;
    const int64_t shifted = i + (in_.rule.align_end ? keys - queries : 0);
    if (in_.rule.causal && j > shifted) return false;
    if (in_.rule.left >= 0 && shifted - j > in_.rule.left) return false;
    if (in_.rule.right >= 0 && j - shifted > in_.rule.right) return false;
    if (in_.mask.view.data && in_.mask.view.at(b, h, i, j) == in_.mask.hidden_value) return false;
    return !in_.bias.data || in_.bias.template at<T>(b, h, i, j) != -kInfinity;
  }

  HeadResult<C> forward(int64_t b, int64_t h) const {
    const Head head(*this, b, h);
    HeadResult<C> r;
    forward(head, b, h, r);
    return r;
  }

  /// Adds the gradients to a forward result. The correction of softmax is the sum over the weights.
  HeadResult<C> backward(const BackwardParams<T>& p, int64_t b, int64_t h) const {
    const Head head(*this, b, h);
    HeadResult<C> r;
    forward(head, b, h, r);
    r.query.assign(head.queries * in_.width, 0);
    r.key.assign(head.keys * in_.width, 0);
    r.value.assign(head.keys * in_.value_width, 0);
    r.score.assign(head.queries * head.keys, 0);
    const int64_t first = in_.sequences.query(b).first;
    for (int64_t i = 0; i < head.queries; ++i) {
      std::vector<C> gradient(in_.value_width);
      for (int64_t d = 0; d < in_.value_width; ++d) {
        gradient[d] = kernels::to_compute(p.output_gradient.at(b, h, first + i, d));
      }
      const C e = p.lse_gradient.data ? C(*p.lse_gradient.at(b, h, first + i)) : C{0};
      backward_row(head, i, gradient, e, r);
    }
    return r;
  }

 private:
  static constexpr kernels::Compute<T> kInfinity =
      std::numeric_limits<kernels::Compute<T>>::infinity();

  // Inputs of one sequence and head, and what its rows see and keep.
  struct Head {
    int64_t queries, keys;
    std::vector<C> query, key, value;                 // (T_q, D), (T_k, D), (T_k, D_v)
    std::vector<C> key_transposed, value_transposed;  // (D, T_k), (D_v, T_k)
    std::vector<uint8_t> seen, kept;                  // (T_q, T_k)

    Head(const Reference& reference, int64_t b, int64_t h) {
      const AttentionInputs<T>& in = reference.in_;
      const auto [q0, q_rows, q_length] = in.sequences.query(b);
      const auto [k0, k_rows, k_length] = in.sequences.key(b);
      queries = q_rows;
      keys = k_rows;
      // Query heads 0 … H/G - 1 read key/value head 0, the next H/G head 1, and so on.
      const int64_t group = h * in.kv_heads / in.heads;
      const auto copy = [&](const auto& view, int64_t width, int64_t row, int64_t place,
                            std::vector<C>& to) {
        for (int64_t d = 0; d < width; ++d) {
          to.push_back(kernels::to_compute(view.at(row, group, place, d)));
        }
      };
      for (int64_t i = 0; i < queries * in.width; ++i) {
        query.push_back(kernels::to_compute(in.query.at(b, h, q0 + i / in.width, i % in.width)));
      }
      for (int64_t j = 0; j < keys; ++j) {
        copy(in.key, in.width, in.beam_index.row(b, j), k0 + j, key);
        copy(in.value, in.value_width, in.beam_index.row(b, j), k0 + j, value);
      }
      key_transposed = transposed(key, in.width);
      value_transposed = transposed(value, in.value_width);
      for (int64_t n = 0; n < queries * keys; ++n) {
        const int64_t i = n / keys, j = n % keys;
        seen.push_back(reference.visible(b, h, i, j));
        kept.push_back(in.dropout.threshold == 0 ||
                       (seen.back() && reference_keeps(in.dropout, b * in.heads + h, i, j)));
      }
    }

    std::vector<C> transposed(const std::vector<C>& matrix, int64_t width) const {
      std::vector<C> result(matrix.size());
      for (int64_t n = 0; n < int64_t(matrix.size()); ++n) {
        result[n % width * keys + n / width] = matrix[n];
      }
      return result;
    }
    // row . key j for all keys, hidden ones too
    std::vector<C> dots(const C* row, const std::vector<C>& matrix, int64_t width) const {
      std::vector<C> sums(keys, 0);
      for (int64_t d = 0; d < width; ++d) {
        const C* from = matrix.data() + d * keys;
        for (int64_t j = 0; j < keys; ++j) sums[j] += row[d] * from[j];
      }
      return sums;
    }
  };

  void forward(const Head& head, int64_t b, int64_t h, HeadResult<C>& r) const {
    const int64_t keys = head.keys, width = in_.value_width;
    r.output.assign(head.queries * width, 0);
    r.lse.assign(head.queries, -std::numeric_limits<C>::infinity());
    r.scores.assign(head.queries * keys, 0);
    r.weights = r.scores;
    for (int64_t i = 0; i < head.queries; ++i) {
      const uint8_t* seen = head.seen.data() + i * keys;
      C* weights = r.weights.data() + i * keys;
      C largest = -std::numeric_limits<C>::infinity(), sum = 0;
      C* score = r.scores.data() + i * keys;
      const std::vector<C> dots =
          head.dots(head.query.data() + i * in_.width, head.key_transposed, in_.width);
      for (int64_t j = 0; j < keys; ++j) {
        if (!seen[j]) continue;
        score[j] = C(in_.scale) * dots[j];
        if (in_.bias.data) score[j] += C(in_.bias.template at<T>(b, h, i, j));
        largest = std::max(largest, score[j]);
      }
      for (int64_t j = 0; j < keys; ++j) {
        if (seen[j]) sum += weights[j] = std::exp(score[j] - largest);
      }
      if (sum == 0) continue;
      r.lse[i] = largest + std::log(sum);
      C* output = r.output.data() + i * width;
      for (int64_t j = 0; j < keys; ++j) {
        if (!seen[j]) continue;
        weights[j] /= sum;
        if (!head.kept[i * keys + j]) continue;
        const C weight = rounded(weights[j]);
        for (int64_t d = 0; d < width; ++d) output[d] += weight * head.value[j * width + d];
      }
      for (int64_t d = 0; d < width; ++d) output[d] *= factor();
    }
  }

  void backward_row(const Head& head, int64_t i, const std::vector<C>& g, C lse_gradient,
                    HeadResult<C>& r) const {
    const int64_t keys = head.keys, width = in_.width, value_width = in_.value_width;
    const uint8_t* seen = head.seen.data() + i * keys;
    const uint8_t* kept = head.kept.data() + i * keys;
    const C* weights = r.weights.data() + i * keys;
    std::vector<C> weight_gradient = head.dots(g.data(), head.value_transposed, value_width);
    C correction = 0;
    for (int64_t j = 0; j < keys; ++j) {
      if (!seen[j]) continue;
      weight_gradient[j] = kept[j] ? factor() * weight_gradient[j] : C{0};
      correction += weights[j] * weight_gradient[j];
      if (!kept[j]) continue;
      const C weight = rounded(weights[j]) * factor();
      for (int64_t d = 0; d < value_width; ++d) r.value[j * value_width + d] += weight * g[d];
    }
    for (int64_t j = 0; j < keys; ++j) {
      if (!seen[j]) continue;
      const C gradient = rounded(weights[j] * (weight_gradient[j] - correction + lse_gradient));
      r.score[i * keys + j] = gradient;
      const C scaled = C(in_.scale) * gradient;
      for (int64_t d = 0; d < width; ++d) {
        r.query[i * width + d] += scaled * head.key[j * width + d];
        r.key[j * width + d] += scaled * head.query[i * width + d];
      }
    }
  }

  static C rounded(C x) {
    if constexpr (std::is_same_v<C, kernels::Compute<T>>) {
      return kernels::to_compute(kernels::from_compute<T>(x));
    } else {
      return x;
    }
  }
  C factor() const {
    return in_.dropout.threshold == 0 ? C{1} : C(65536) / C(65536 - in_.dropout.threshold);
  }

  const AttentionInputs<T>& in_;
};

}  // namespace headwise::testing
