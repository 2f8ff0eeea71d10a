// The packed form against the padded one, dropout, weights on request, and what has no gradient.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <vector>

#include "csrc/ops/attention.h"
#include "tests/cpp/ops/formula.h"

namespace headwise::testing {
namespace {

using torch::autograd::grad;

/// (B, heads, T, width) → (N, heads, width), the first lengths[b] rows of each.
at::Tensor pack(const at::Tensor& padded, const std::vector<int64_t>& lengths) {
  std::vector<at::Tensor> rows;
  for (size_t b = 0; b < lengths.size(); ++b) {
    rows.push_back(padded[b].slice(1, 0, lengths[b]).transpose(0, 1));
  }
  return at::cat(rows);
}

at::Tensor starts_of(const std::vector<int64_t>& lengths) {
  std::vector<int32_t> starts{0};
  for (const int64_t length : lengths) starts.push_back(starts.back() + int32_t(length));
  return at::tensor(starts, at::kInt);
}

AttentionOptions everything(int64_t heads, int64_t queries, int64_t keys) {
  AttentionOptions options;
  options.causal = true;
  options.window = {{20, -1}};
  options.hide = at::rand({1, heads, queries, keys}) < 0.2;
  options.bias = randn({1, 1, queries, keys});
  options.dropout = 0.3;
  options.seed = at::scalar_tensor(11, at::kLong);
  return options;
}

// Exactly: the same rows in the same order of operations, with the same dropout.
TEST(Packed, EqualsPaddedBitForBit) {
  at::manual_seed(5);
  const std::vector<int64_t> query_lengths{5, 0, 3, 9}, key_lengths{7, 4, 0, 6};
  std::vector<at::Tensor> t{randn({4, 4, 9, 8}), randn({4, 2, 7, 8}), randn({4, 2, 7, 5})};
  for (at::Tensor& tensor : t) tensor.requires_grad_(true);
  AttentionOptions options = everything(4, 9, 7);
  const at::Tensor q = pack(t[0], query_lengths), k = pack(t[1], key_lengths),
                   v = pack(t[2], key_lengths);
  const auto packed =
      attention_packed(q, k, v, starts_of(query_lengths), starts_of(key_lengths), 9, 7, options);
  const auto hints =
      attention_packed(q, k, v, starts_of(query_lengths), starts_of(key_lengths), 0, 1000, options);
  EXPECT_TRUE(at::equal(packed.output, hints.output));
  EXPECT_TRUE(packed.output.is_contiguous());
  const at::Tensor weights = attention_weights_packed(
      q, k, packed.lse.detach(), starts_of(query_lengths), starts_of(key_lengths), 9, 7, options);
  options.query_lengths = at::tensor(query_lengths);
  options.key_lengths = at::tensor(key_lengths);
  const auto padded = attention(t[0], t[1], t[2], options);
  EXPECT_TRUE(at::equal(packed.output, pack(padded.output, query_lengths)));
  EXPECT_TRUE(at::equal(packed.lse, pack(padded.lse.unsqueeze(-1), query_lengths).squeeze(-1)));
  EXPECT_TRUE(at::equal(weights, attention_weights(t[0], t[1], padded.lse.detach(), options)));
  const at::Tensor g = at::randn_like(padded.output);
  const auto ours = grad({packed.output}, t, {pack(g, query_lengths)});
  const auto theirs = grad({padded.output}, t, {g});
  for (size_t n = 0; n < t.size(); ++n) EXPECT_TRUE(at::equal(ours[n], theirs[n])) << n;
}

TEST(Packed, RowsOfNoSequenceAreBlank) {
  std::vector<at::Tensor> t{randn({6, 2, 4}), randn({6, 2, 4}), randn({6, 2, 4})};
  for (at::Tensor& tensor : t) tensor.requires_grad_(true);
  const at::Tensor starts = at::tensor(std::vector<int64_t>{1, 3, 5});
  const auto got = attention_packed(t[0], t[1], t[2], starts, starts, 2, 2);
  const auto gradients = grad({got.output.sum()}, t);
  for (const int64_t row : {0, 5}) {
    EXPECT_TRUE((got.output[row] == 0).all().item<bool>());
    EXPECT_TRUE(got.lse[row].isneginf().all().item<bool>());
    for (const at::Tensor& g : gradients) EXPECT_TRUE((g[row] == 0).all().item<bool>());
  }
  EXPECT_TRUE((got.output[1] != 0).any().item<bool>());
}

/// The factor of each weight, read out through one-hot values.
at::Tensor drawn(const at::Tensor& query, const at::Tensor& key, const AttentionOptions& options) {
  const int64_t keys = key.size(2);
  const at::Tensor one_hot = at::eye(keys, key.options()).expand({1, key.size(1), keys, keys});
  const at::Tensor dropped = attention(query, key, one_hot, options).output;
  AttentionOptions without = options;
  without.dropout = 0.0;
  return dropped / attention(query, key, one_hot, without).output;
}

TEST(Dropout, IsTheSameInForwardAndBackward) {
  at::manual_seed(6);
  std::vector<at::Tensor> t{randn({1, 4, 9, 8}), randn({1, 2, 40, 8}), randn({1, 2, 40, 5})};
  AttentionOptions options;
  options.dropout = 0.48;
  options.seed = at::scalar_tensor(-9, at::kLong);
  options.offset = 3;
  const at::Tensor factor = drawn(t[0], t[1], options);
  for (at::Tensor& tensor : t) tensor.requires_grad_(true);
  const auto got = attention(t[0], t[1], t[2], options);
  const auto want = formula(t[0], t[1], t[2], std::nullopt, std::nullopt, std::nullopt, factor);
  EXPECT_LE(difference(got.output, want.output), 1e-12);
  const at::Tensor g = at::randn_like(got.output);
  const auto ours = grad({got.output}, t, {g}), theirs = grad({want.output}, t, {g});
  for (size_t n = 0; n < t.size(); ++n) EXPECT_LE(difference(ours[n], theirs[n]), 1e-11);
}

TEST(Dropout, FollowsTheGeneratorAndKeepsItsPromise) {
  const at::Tensor query = randn({1, 4, 100, 4}), key = randn({1, 4, 100, 4});
  AttentionOptions options;
  options.dropout = 0.25;
  const auto draw = [&] { return attention(query, key, key, options).output; };
  at::manual_seed(1);
  const at::Tensor first = draw(), second = draw();
  at::manual_seed(1);
  EXPECT_TRUE(at::equal(first, draw()));
  EXPECT_FALSE(at::equal(first, second));
  options.seed = at::scalar_tensor(1, at::kLong);
  const at::Tensor factor = drawn(query, key, options);
  const double kept = (factor != 0).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(kept, 0.75, 5 * std::sqrt(0.25 * 0.75 / factor.numel()));
  const at::Tensor scales = factor.masked_select(factor != 0);
  EXPECT_LE(difference(scales, at::full_like(scales, 1 / 0.75)), 1e-12);
  const at::Tensor seeded = draw();
  options.offset = 1;
  EXPECT_FALSE(at::equal(seeded, draw()));
}

TEST(Weights, SumToOneAndGiveTheOutput) {
  const at::Tensor query = randn({2, 4, 5, 6}), key = randn({2, 2, 7, 6}),
                   value = randn({2, 2, 7, 3});
  AttentionOptions options;
  at::Tensor hide = at::rand({5, 7}) < 0.4;
  hide[2] = true;
  options.hide = hide;
  options.bias = randn({2, 1, 1, 7});
  const auto result = attention(query, key, value, options);
  const at::Tensor weights = attention_weights(query, key, result.lse, options);
  EXPECT_LE(difference(weights, formula(query, key, value, hide, options.bias).weights), 1e-12);
  EXPECT_TRUE((weights.masked_select(hide) == 0).all().item<bool>());
  EXPECT_LE(difference(at::matmul(weights, value.repeat_interleave(2, 1)), result.output), 1e-12);
}

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(NoGradient, IsSaidWhenItIsAskedFor) {
  at::Tensor query = randn({1, 1, 3, 2}).requires_grad_(true);
  const auto result = attention(query, query, query);
  const at::Tensor gradient = grad({result.output.pow(2).sum()}, {query}, {}, true, true)[0];
  EXPECT_NE(message_of([&] { gradient.norm().backward(); }).find("double backward"),
            std::string::npos);
  const at::Tensor weights = attention_weights(query, query, result.lse);
  EXPECT_NE(message_of([&] { weights.sum().backward(); }).find("attention_weights"),
            std::string::npos);
  const at::Tensor cache = at::zeros({1, 1, 4, 2}, at::kDouble);
  const at::Tensor lengths = at::tensor(std::vector<int64_t>{3});
  const at::Tensor decoded = attention_decode(query, cache, cache, lengths).output;
  EXPECT_NE(message_of([&] { decoded.sum().backward(); }).find("attention_decode"),
            std::string::npos);
  EXPECT_NE(message_of([&] {
              cache_append(cache, cache, query, query, at::tensor(std::vector<int64_t>{0}));
            }).find("no_grad"),
            std::string::npos);
}

TEST(NoGradient, InferenceModeGivesTheSameNumbers) {
  const at::Tensor query = randn({1, 2, 3, 4});
  AttentionOptions options;
  options.dropout = 0.5;
  at::manual_seed(2);
  const at::Tensor want = attention(query, query, query, options).output;
  const c10::InferenceMode inference;
  at::manual_seed(2);
  EXPECT_TRUE(at::equal(attention(query, query, query, options).output, want));
}

}  // namespace
}  // namespace headwise::testing
