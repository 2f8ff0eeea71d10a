// The judge of every attention kernel: attention.h's definition, written as plain loops over whole
// score matrices, in any precision. It shares no code with the kernels; even the random bits are
// its own.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "csrc/kernels/attention/params.h"

namespace headwise::testing {

using kernels::AttentionInputs;
using kernels::BackwardParams;

/// Philox4x32-7, straight from the paper's equations. counter and key are in reading order.
inline std::vector<uint32_t> reference_philox(std::vector<uint32_t> c, std::vector<uint32_t> k) {
  for (int round = 0; round < 7; ++round) {
    const uint64_t p0 = 0xD2511F53ull * c[0], p1 = 0xCD9E8D57ull * c[2];
    c = {uint32_t(p1 >> 32) ^ c[1] ^ k[0], uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ k[1],
         uint32_t(p0)};
    k = {k[0] + 0x9E3779B9u, k[1] + 0xBB67AE85u};
  }
  return c;
}

inline bool reference_keeps(const kernels::Dropout& dropout, int64_t head, int64_t i, int64_t j) {
  const std::vector<uint32_t> words = reference_philox(
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
    return !in_.bias.data ||
           in_.bias.template at<T>(b, h, i, j) != -std::numeric_limits<T>::infinity();
  }

  HeadResult<C> forward(int64_t b, int64_t h) const {
    const auto [q0, queries, _] = in_.sequences.query(b);
    const auto [k0, keys, __] = in_.sequences.key(b);
    HeadResult<C> r;
    r.output.assign(queries * in_.value_width, 0);
    r.lse.assign(queries, -std::numeric_limits<C>::infinity());
    r.weights.assign(queries * keys, 0);
    for (int64_t i = 0; i < queries; ++i) {
      C largest = -std::numeric_limits<C>::infinity(), sum = 0;
      std::vector<C> score(keys);
      for (int64_t j = 0; j < keys; ++j) {
        if (!visible(b, h, i, j)) continue;
        C dot = 0;
        for (int64_t d = 0; d < in_.width; ++d) dot += query(b, h, q0 + i, d) * key(b, h, k0, j, d);
        score[j] = C(in_.scale) * dot;
        if (in_.bias.data) score[j] += C(in_.bias.template at<T>(b, h, i, j));
        largest = std::max(largest, score[j]);
      }
      for (int64_t j = 0; j < keys; ++j) {
        if (!visible(b, h, i, j)) continue;
        r.weights[i * keys + j] = std::exp(score[j] - largest);
        sum += r.weights[i * keys + j];
      }
      if (sum == 0) continue;
      r.lse[i] = largest + std::log(sum);
      for (int64_t j = 0; j < keys; ++j) {
        if (!visible(b, h, i, j)) continue;
        r.weights[i * keys + j] /= sum;
        for (int64_t d = 0; d < in_.value_width; ++d) {
          r.output[i * in_.value_width + d] +=
              factor(b, h, i, j) * r.weights[i * keys + j] * value(b, h, k0, j, d);
        }
      }
    }
    return r;
  }

  /// Adds the gradients to a forward result. The correction of softmax is the sum over the weights,
  /// not the product of output and its gradient that the kernels use.
  HeadResult<C> backward(const BackwardParams<T>& p, int64_t b, int64_t h) const {
    HeadResult<C> r = forward(b, h);
    const auto [q0, queries, _] = in_.sequences.query(b);
    const auto [k0, keys, __] = in_.sequences.key(b);
    r.query.assign(queries * in_.width, 0);
    r.key.assign(keys * in_.width, 0);
    r.value.assign(keys * in_.value_width, 0);
    r.score.assign(queries * keys, 0);
    for (int64_t i = 0; i < queries; ++i) {
      std::vector<C> weight_gradient(keys, 0);
      C correction = 0;
      for (int64_t j = 0; j < keys; ++j) {
        if (!visible(b, h, i, j)) continue;
        const C weight = r.weights[i * keys + j];
        for (int64_t d = 0; d < in_.value_width; ++d) {
          const C g = p.output_gradient.at(b, h, q0 + i, d);
          weight_gradient[j] += g * value(b, h, k0, j, d);
          r.value[j * in_.value_width + d] += factor(b, h, i, j) * weight * g;
        }
        weight_gradient[j] *= factor(b, h, i, j);
        correction += weight * weight_gradient[j];
      }
      for (int64_t j = 0; j < keys; ++j) {
        if (!visible(b, h, i, j)) continue;
        C gradient = weight_gradient[j] - correction;
        if (p.lse_gradient.data) gradient += *p.lse_gradient.at(b, h, q0 + i);
        gradient *= r.weights[i * keys + j];
        r.score[i * keys + j] = gradient;
        for (int64_t d = 0; d < in_.width; ++d) {
          r.query[i * in_.width + d] += C(in_.scale) * gradient * key(b, h, k0, j, d);
          r.key[j * in_.width + d] += C(in_.scale) * gradient * query(b, h, q0 + i, d);
        }
      }
    }
    return r;
  }

 private:
  C query(int64_t b, int64_t h, int64_t row, int64_t d) const { return in_.query.at(b, h, row, d); }
  // Query heads 0 … H/G - 1 read key/value head 0, the next H/G head 1, and so on.
  C key(int64_t b, int64_t h, int64_t first, int64_t j, int64_t d) const {
    return in_.key.at(in_.beam_index.row(b, j), h * in_.kv_heads / in_.heads, first + j, d);
  }
  C value(int64_t b, int64_t h, int64_t first, int64_t j, int64_t d) const {
    return in_.value.at(in_.beam_index.row(b, j), h * in_.kv_heads / in_.heads, first + j, d);
  }
  C factor(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (in_.dropout.threshold == 0) return 1;
    if (!reference_keeps(in_.dropout, b * in_.heads + h, i, j)) return 0;
    return C(65536) / C(65536 - in_.dropout.threshold);
  }

  const AttentionInputs<T>& in_;
};

}  // namespace headwise::testing
