// What the tests of the module share: small modules with random weights, and attention written down
// plainly in double precision, which judges them.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "csrc/nn/multi_head_attention.h"

namespace headwise::nn::test {

inline MultiHeadAttentionOptions sizes(int64_t embed_dim, int64_t heads, int64_t kv_heads = 0,
                                       int64_t head_dim = 0) {
  MultiHeadAttentionOptions options;
  options.embed_dim = embed_dim;
  options.num_heads = heads;
  options.num_kv_heads = kv_heads;
  options.head_dim = head_dim;
  return options;
}

/// Random weights and, unlike a fresh module, random biases: a forgotten bias must show.
inline MultiHeadAttention make_module(const MultiHeadAttentionOptions& options,
                                      at::ScalarType dtype = at::kDouble) {
  at::manual_seed(17);
  MultiHeadAttention module(options);
  module->to(dtype);
  const at::NoGradGuard no_grad;
  for (const at::Tensor& parameter : module->parameters()) parameter.uniform_(-0.5, 0.5);
  return module;
}

inline at::Tensor project(const at::Tensor& x, const torch::nn::Linear& layer) {
  const at::Tensor product = at::matmul(x.to(at::kDouble), layer->weight.to(at::kDouble).t());
  return layer->bias.defined() ? product + layer->bias.to(at::kDouble) : product;
}

struct Reference {
  at::Tensor output;   // (B, T_q, E)
  at::Tensor weights;  // (B, H, T_q, T_k)
  at::Tensor heads;    // (B, T_q, H, D), before W_O
};

/// query (B, T_q, E), key and value (B, T_k, …), hidden: bool, broadcastable to (B, H, T_q, T_k).
inline Reference reference(const MultiHeadAttention& module, const at::Tensor& query,
                           const at::Tensor& key, const at::Tensor& value,
                           const at::Tensor& hidden) {
  const MultiHeadAttentionOptions& o = module->options;
  const auto split = [&](const at::Tensor& x, int64_t heads) {
    return x.reshape({x.size(0), x.size(1), heads, o.head_dim}).transpose(1, 2);
  };
  const int64_t group = o.num_heads / o.num_kv_heads;
  const at::Tensor q = split(project(query, module->q_proj), o.num_heads);
  const at::Tensor k =
      split(project(key, module->k_proj), o.num_kv_heads).repeat_interleave(group, 1);
  const at::Tensor v =
      split(project(value, module->v_proj), o.num_kv_heads).repeat_interleave(group, 1);
  at::Tensor scores = at::matmul(q, k.transpose(2, 3)) / std::sqrt(double(o.head_dim));
  scores = scores.masked_fill(hidden, -INFINITY);
  Reference result;
  result.weights = at::softmax(scores, -1).nan_to_num(0.0);  // rows that see nothing
  result.heads = at::matmul(result.weights, v).transpose(1, 2);
  const at::Tensor joined = result.heads.flatten(2);
  result.output = module->out_proj.is_empty() ? joined : project(joined, module->out_proj);
  return result;
}

inline at::Tensor nothing_hidden() { return at::zeros({1, 1, 1, 1}, at::kBool); }

inline at::Tensor causal_hidden(int64_t length) {
  return at::ones({length, length}, at::kBool).triu(1).view({1, 1, length, length});
}

inline void expect_close(const at::Tensor& got, const at::Tensor& want, double tolerance = 1e-11) {
  ASSERT_EQ(got.sizes(), want.sizes());
  const double error = (got.to(at::kDouble) - want.to(at::kDouble)).abs().max().item<double>();
  EXPECT_LE(error, tolerance * (1 + want.abs().max().item<double>()));
}

/// Runs `call` and gives the first line of what it threw, or "" when nothing was thrown.
template <typename Call>
std::string error_of(const Call& call) {
  try {
    call();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

inline void expect_mentions(const std::string& message, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    EXPECT_NE(message.find(word), std::string::npos) << '"' << word << "\" not in: " << message;
  }
}

/// (T_0 + T_1 + …, E) from the first lengths[b] rows of each (B, T, E).
inline at::Tensor pack(const at::Tensor& padded, const std::vector<int64_t>& lengths) {
  std::vector<at::Tensor> rows;
  for (size_t b = 0; b < lengths.size(); ++b) rows.push_back(padded[b].slice(0, 0, lengths[b]));
  return at::cat(rows);
}

inline at::Tensor starts_of(const std::vector<int64_t>& lengths) {
  at::Tensor starts = at::zeros({int64_t(lengths.size()) + 1}, at::kInt);
  for (size_t b = 0; b < lengths.size(); ++b) starts[b + 1] = starts[b] + lengths[b];
  return starts;
}

}  // namespace headwise::nn::test
