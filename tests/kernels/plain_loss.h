// Problems for the fused loss, and the plain formula for them: all scores of a row at once.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "csrc/kernels/linear_cross_entropy/params.h"
#include "tests/kernels/random.h"

namespace headwise::testing {

struct LossCase {
  int64_t rows, width, classes;
  bool has_bias, has_weights;
  double smoothing, spread;  // of the scores, about
  double consistency = 0;
};

/// Everything one run reads and writes, in type C.
template <typename C>
struct LossRun {
  std::vector<C> hidden, weight, bias, row_weight;
  std::vector<int64_t> labels;
  std::vector<double> loss, nll;
  std::vector<C> hidden_gradient, weight_gradient, bias_gradient;

  explicit LossRun(const LossCase& c)
      : loss(c.rows, -7),
        nll(c.rows, -7),
        hidden_gradient(c.rows * c.width, C(-7)),
        weight_gradient(c.classes * c.width, C(-7)),
        bias_gradient(c.classes, C(-7)) {
    Random random{c.rows, c.width, c.classes};
    const double scale = c.spread / std::sqrt(static_cast<double>(c.width));
    for (int64_t i = 0; i < c.rows * c.width; ++i) hidden.push_back(C(random.normal()));
    for (int64_t i = 0; i < c.classes * c.width; ++i) weight.push_back(C(random.normal() * scale));
    for (int64_t i = 0; i < c.classes; ++i) bias.push_back(C(random.normal()));
    for (int64_t i = 0; i < c.rows; ++i) {
      row_weight.push_back(random.chance(10) ? C{0} : C(random.uniform() * 2));
      labels.push_back(random.chance(10) ? -1 : random.below(c.classes));
    }
  }

  kernels::LinearCrossEntropyParams<C> params(const LossCase& c, bool differentiate = true) {
    kernels::LinearCrossEntropyParams<C> p;
    p.rows = c.rows;
    p.width = c.width;
    p.classes = c.classes;
    p.hidden = hidden.data();
    p.weight = weight.data();
    p.labels = labels.data();
    p.bias = c.has_bias ? bias.data() : nullptr;
    p.row_weight = c.has_weights ? row_weight.data() : nullptr;
    p.smoothing = c.smoothing;
    p.consistency = c.consistency;
    p.loss = loss.data();
    p.nll = nll.data();
    if (!differentiate) return p;
    p.hidden_gradient = hidden_gradient.data();
    p.weight_gradient = weight_gradient.data();
    p.bias_gradient = c.has_bias ? bias_gradient.data() : nullptr;
    return p;
  }
};

/// The plain formula, all scores of a row at once, computed in `Sum`, on the numbers of a run.
template <typename Sum, typename C>
struct PlainLoss {
  std::vector<double> loss, nll;
  std::vector<Sum> hidden_gradient, weight_gradient, bias_gradient;

  PlainLoss(const LossCase& c, const LossRun<C>& run)
      : loss(c.rows),
        nll(c.rows),
        hidden_gradient(c.rows * c.width),
        weight_gradient(c.classes * c.width),
        bias_gradient(c.classes) {
    std::vector<Sum> factors;
    for (int64_t n = 0; n < c.rows; ++n) {
      const Sum factor = c.has_weights ? static_cast<Sum>(run.row_weight[n]) : Sum{1};
      factors.push_back(run.labels[n] < 0 ? Sum{0} : factor);
      if (factors[n] != 0) add_row(c, run, n, factors[n]);
    }
    if (c.consistency == 0) return;
    for (int64_t n = 0; n < c.rows; n += 2) {
      if (factors[n] == 0 || factors[n + 1] == 0) continue;
      const Sum factor = static_cast<Sum>(c.consistency) * (factors[n] + factors[n + 1]) / 4;
      add_pair(c, run, n, factor);
    }
  }

 private:
  std::vector<Sum> scores_of(const LossCase& c, const LossRun<C>& run, int64_t n) {
    const C* h = run.hidden.data() + n * c.width;
    std::vector<Sum> scores(c.classes);
    for (int64_t v = 0; v < c.classes; ++v) {
      const C* w = run.weight.data() + v * c.width;
      for (int64_t i = 0; i < c.width; ++i) scores[v] += Sum(h[i]) * Sum(w[i]);
      if (c.has_bias) scores[v] += Sum(run.bias[v]);
    }
    return scores;
  }
  static Sum log_sum_of(const std::vector<Sum>& scores) {
    const Sum top = *std::max_element(scores.begin(), scores.end());
    Sum total = 0;
    for (const Sum x : scores) total += std::exp(x - top);
    return top + std::log(total);
  }
  void add_score_gradient(const LossCase& c, const LossRun<C>& run, int64_t n, int64_t v, Sum d) {
    bias_gradient[v] += d;
    for (int64_t i = 0; i < c.width; ++i) {
      hidden_gradient[n * c.width + i] += d * Sum(run.weight[v * c.width + i]);
      weight_gradient[v * c.width + i] += d * Sum(run.hidden[n * c.width + i]);
    }
  }

  void add_row(const LossCase& c, const LossRun<C>& run, int64_t n, Sum factor) {
    const std::vector<Sum> scores = scores_of(c, run, n);
    Sum mean = 0;
    for (const Sum x : scores) mean += x / Sum(c.classes);
    const Sum log_sum = log_sum_of(scores), smoothing = static_cast<Sum>(c.smoothing);
    const Sum own = log_sum - scores[run.labels[n]];
    nll[n] = static_cast<double>(factor * own);
    loss[n] = static_cast<double>(factor * ((1 - smoothing) * own + smoothing * (log_sum - mean)));
    for (int64_t v = 0; v < c.classes; ++v) {
      Sum d = std::exp(scores[v] - log_sum) - smoothing / Sum(c.classes);
      if (v == run.labels[n]) d -= 1 - smoothing;
      add_score_gradient(c, run, n, v, d * factor);
    }
  }

  // factor (KL(p, q) + KL(q, p)) of rows n and n + 1: a sum of (p - q) (log p - log q).
  void add_pair(const LossCase& c, const LossRun<C>& run, int64_t n, Sum factor) {
    const std::vector<Sum> a = scores_of(c, run, n), b = scores_of(c, run, n + 1);
    const Sum log_sum = log_sum_of(a), other_log_sum = log_sum_of(b);
    std::vector<Sum> p, q, ratio;
    Sum divergence = 0, other_divergence = 0;
    for (int64_t v = 0; v < c.classes; ++v) {
      p.push_back(std::exp(a[v] - log_sum));
      q.push_back(std::exp(b[v] - other_log_sum));
      ratio.push_back((a[v] - log_sum) - (b[v] - other_log_sum));
      divergence += p[v] * ratio[v];
      other_divergence -= q[v] * ratio[v];
    }
    loss[n] += static_cast<double>(factor * divergence);
    loss[n + 1] += static_cast<double>(factor * other_divergence);
    for (int64_t v = 0; v < c.classes; ++v) {
      add_score_gradient(c, run, n, v, factor * (p[v] * (ratio[v] - divergence) + p[v] - q[v]));
      add_score_gradient(c, run, n + 1, v,
                         factor * (q[v] * (-ratio[v] - other_divergence) + q[v] - p[v]));
    }
  }
};

}  // namespace headwise::testing
