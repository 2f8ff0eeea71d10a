// A Transformer in plain loops and a wider type, without cache, packing or batches: every token of
// every sentence anew.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/kernels/random.h"

namespace headwise::testing {

/// Weights (out, in) row-major and biases, empty: none.
template <typename C>
struct PlainLinear {
  int64_t out = 0, in = 0;
  std::vector<C> weight, bias;
};

template <typename C>
struct PlainNorm {
  std::vector<C> weight, bias;
};

template <typename C>
struct PlainAttention {
  int64_t heads = 0, kv_heads = 0, width = 0;
  bool rotary = false;
  PlainLinear<C> query, key, value, output;
  PlainNorm<C> norm;
};

template <typename C>
struct PlainLayer {
  PlainAttention<C> self, cross;
  PlainLinear<C> in, out;
  PlainNorm<C> norm;
};

struct ModelShape {
  int64_t width = 16, feed_forward = 24, pieces = 40, layers = 2;
  int64_t heads = 4, kv_heads = 4, head_width = 4;
  bool pre_norm = true, gelu = false, rotary = false, bias = true;
};

constexpr double kNormEpsilon = 1e-5, kEmbeddingScale = 1.5;
constexpr int64_t kPositions = 128;

template <typename C>
struct PlainModel {
  ModelShape shape;
  std::vector<PlainLayer<C>> encoder, decoder;
  PlainNorm<C> encoder_norm, decoder_norm;
  std::vector<C> embedding, output;  // (pieces, E)
  std::vector<C> sinusoidal;         // (kPositions, E)
  std::vector<C> cosine, sine;       // (kPositions, D / 2)

  PlainModel(const ModelShape& given, Random& random) : shape(given) {
    for (int64_t i = 0; i < shape.layers; ++i) {
      encoder.push_back(layer(random));
      decoder.push_back(layer(random));
      decoder.back().cross.rotary = false;
    }
    encoder_norm = norm(random);
    decoder_norm = norm(random);
    embedding = numbers(random, shape.pieces * shape.width, 1);
    output = numbers(random, shape.pieces * shape.width, 0.5);
    sinusoidal = numbers(random, kPositions * shape.width, 0.5);
    for (const double angle : numbers(random, kPositions * (shape.head_width / 2), 2)) {
      cosine.push_back(C(std::cos(angle)));
      sine.push_back(C(std::sin(angle)));
    }
  }

 private:
  static std::vector<C> numbers(Random& random, int64_t count, double deviation) {
    std::vector<C> some(count);
    for (C& x : some) x = C(random.normal() * deviation);
    return some;
  }
  PlainLinear<C> linear(Random& random, int64_t out, int64_t in) const {
    return {out, in, numbers(random, out * in, 1 / std::sqrt(double(in))),
            shape.bias ? numbers(random, out, 0.3) : std::vector<C>()};
  }
  PlainNorm<C> norm(Random& random) const {
    PlainNorm<C> made{numbers(random, shape.width, 0.3), numbers(random, shape.width, 0.3)};
    for (C& x : made.weight) x += 1;
    return made;
  }
  PlainAttention<C> attention(Random& random) const {
    const int64_t queries = shape.heads * shape.head_width;
    const int64_t keys = shape.kv_heads * shape.head_width;
    return {shape.heads,
            shape.kv_heads,
            shape.head_width,
            shape.rotary,
            linear(random, queries, shape.width),
            linear(random, keys, shape.width),
            linear(random, keys, shape.width),
            linear(random, shape.width, queries),
            norm(random)};
  }
  PlainLayer<C> layer(Random& random) const {
    return {attention(random), attention(random), linear(random, shape.feed_forward, shape.width),
            linear(random, shape.width, shape.feed_forward), norm(random)};
  }
};

template <typename C, typename Sum>
class PlainTransformer {
 public:
  using Row = std::vector<Sum>;
  using RowList = std::vector<Row>;

  explicit PlainTransformer(const PlainModel<C>& model) : model_(model), shape_(model.shape) {}

  RowList encode(const std::vector<int64_t>& tokens) const {
    RowList x = embed(tokens);
    for (const PlainLayer<C>& layer : model_.encoder) {
      add(x, layer.self.norm, [&](const RowList& y) { return attend(layer.self, y, y, false); });
      feed_forward(x, layer);
    }
    return finish(x, model_.encoder_norm);
  }

  /// Log-probabilities of what follows the last token.
  Row predict(const std::vector<int64_t>& tokens, const RowList& states) const {
    RowList x = embed(tokens);
    for (const PlainLayer<C>& layer : model_.decoder) {
      add(x, layer.self.norm, [&](const RowList& y) { return attend(layer.self, y, y, true); });
      add(x, layer.cross.norm,
          [&](const RowList& y) { return attend(layer.cross, y, states, false); });
      feed_forward(x, layer);
    }
    const Row last = finish(x, model_.decoder_norm).back();
    Row scores(shape_.pieces);
    Sum sum = 0;
    for (int64_t v = 0; v < shape_.pieces; ++v) {
      for (int64_t i = 0; i < shape_.width; ++i) {
        scores[v] += Sum(model_.output[v * shape_.width + i]) * last[i];
      }
      sum += std::exp(scores[v]);
    }
    for (Sum& score : scores) score -= std::log(sum);
    return scores;
  }

 private:
  RowList embed(const std::vector<int64_t>& tokens) const {
    RowList x;
    for (size_t t = 0; t < tokens.size(); ++t) {
      x.emplace_back(shape_.width);
      for (int64_t i = 0; i < shape_.width; ++i) {
        x[t][i] = Sum(model_.embedding[tokens[t] * shape_.width + i]) * Sum(kEmbeddingScale);
        if (!shape_.rotary) x[t][i] += Sum(model_.sinusoidal[t * shape_.width + i]);
      }
    }
    return x;
  }

  RowList finish(const RowList& x, const PlainNorm<C>& norm) const {
    return shape_.pre_norm ? normalised(x, norm) : x;
  }

  template <typename Branch>
  void add(RowList& x, const PlainNorm<C>& norm, const Branch& branch) const {
    const RowList y = branch(shape_.pre_norm ? normalised(x, norm) : x);
    for (size_t t = 0; t < x.size(); ++t) {
      for (int64_t i = 0; i < shape_.width; ++i) x[t][i] += y[t][i];
    }
    if (!shape_.pre_norm) x = normalised(x, norm);
  }

  void feed_forward(RowList& x, const PlainLayer<C>& layer) const {
    add(x, layer.norm, [&](const RowList& y) {
      RowList inner = product(y, layer.in);
      for (Row& row : inner) {
        for (Sum& v : row) {
          v = shape_.gelu ? v * (1 + std::erf(v / std::sqrt(Sum(2)))) / 2 : std::max(v, Sum(0));
        }
      }
      return product(inner, layer.out);
    });
  }

  RowList attend(const PlainAttention<C>& a, const RowList& y, const RowList& seen,
                 bool causal) const {
    const RowList q = rotated(a, product(y, a.query)), k = rotated(a, product(seen, a.key));
    const RowList v = product(seen, a.value);
    RowList heads(y.size(), Row(a.heads * a.width));
    for (size_t t = 0; t < y.size(); ++t) {
      const size_t keys = causal ? t + 1 : seen.size();
      for (int64_t h = 0; h < a.heads; ++h) {
        const int64_t at = h * a.width, from = h / (a.heads / a.kv_heads) * a.width;
        Row weight(keys);
        Sum sum = 0;
        for (size_t j = 0; j < keys; ++j) {
          for (int64_t i = 0; i < a.width; ++i) weight[j] += q[t][at + i] * k[j][from + i];
          weight[j] = std::exp(weight[j] / std::sqrt(Sum(a.width)));
          sum += weight[j];
        }
        for (size_t j = 0; j < keys; ++j) {
          for (int64_t i = 0; i < a.width; ++i) {
            heads[t][at + i] += weight[j] / sum * v[j][from + i];
          }
        }
      }
    }
    return product(heads, a.output);
  }

  RowList rotated(const PlainAttention<C>& a, RowList rows) const {
    if (!a.rotary) return rows;
    const int64_t half = a.width / 2;
    for (size_t t = 0; t < rows.size(); ++t) {
      for (size_t at = 0; at < rows[t].size(); at += a.width) {
        for (int64_t i = 0; i < half; ++i) {
          const Sum c = model_.cosine[t * half + i], s = model_.sine[t * half + i];
          const Sum x = rows[t][at + i], y = rows[t][at + half + i];
          rows[t][at + i] = x * c - y * s;
          rows[t][at + half + i] = y * c + x * s;
        }
      }
    }
    return rows;
  }

  static RowList product(const RowList& x, const PlainLinear<C>& linear) {
    RowList y;
    for (const Row& row : x) {
      y.emplace_back(linear.out);
      for (int64_t o = 0; o < linear.out; ++o) {
        for (int64_t i = 0; i < linear.in; ++i) {
          y.back()[o] += Sum(linear.weight[o * linear.in + i]) * row[i];
        }
        if (!linear.bias.empty()) y.back()[o] += Sum(linear.bias[o]);
      }
    }
    return y;
  }

  static RowList normalised(RowList x, const PlainNorm<C>& norm) {
    for (Row& row : x) {
      const Sum width = Sum(row.size());
      Sum mean = 0, variance = 0;
      for (const Sum v : row) mean += v / width;
      for (const Sum v : row) variance += (v - mean) * (v - mean) / width;
      for (size_t i = 0; i < row.size(); ++i) {
        row[i] = (row[i] - mean) / std::sqrt(variance + Sum(kNormEpsilon)) * Sum(norm.weight[i]) +
                 Sum(norm.bias[i]);
      }
    }
    return x;
  }

  const PlainModel<C>& model_;
  const ModelShape& shape_;
};

}  // namespace headwise::testing
