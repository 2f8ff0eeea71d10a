// What the op returns: strides, storage, precision of the log-sum-exp, and the same on Meta
// tensors.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/autograd.h>

#include <ctime>
#include <utility>

#include "csrc/ops/attention.h"
#include "tests/cpp/ops/formula.h"

namespace headwise::testing {
namespace {

using torch::autograd::grad;

TEST(Layout, MergingTheHeadsCopiesNothing) {
  const at::Tensor query = randn({2, 4, 5, 3}), key = randn({2, 2, 6, 3}),
                   value = randn({2, 2, 6, 8});
  const at::Tensor output = attention(query, key, value).output;
  EXPECT_EQ(output.strides(), at::IntArrayRef({5 * 4 * 8, 8, 4 * 8, 1}));
  EXPECT_FALSE(output.is_view());
  const at::Tensor merged = output.transpose(1, 2).view({2, 5, 32});
  EXPECT_TRUE(merged.is_contiguous());
  EXPECT_EQ(merged.data_ptr(), output.data_ptr());
}

// Splitting a projection into heads and merging what comes back are views, forward and backward:
// the gradient of the projection's output arrives in memory that needs no rearranging.
TEST(Layout, GradientsMergeWithoutACopy) {
  at::Tensor query = randn({2, 4, 5, 3}).requires_grad_(true);
  at::Tensor key = randn({2, 2, 6, 3}).requires_grad_(true);
  at::Tensor value = randn({2, 2, 6, 8}).requires_grad_(true);
  const at::Tensor output = attention(query, key, value).output;
  for (const at::Tensor& gradient : grad({output.sum()}, {query, key, value})) {
    EXPECT_TRUE(gradient.transpose(1, 2).is_contiguous());
  }
}

TEST(Layout, LogSumExpIsNaturalAndHasTheDtypeOfTheQuery) {
  const at::Tensor query = randn({1, 2, 33, 4}, at::kFloat), key = randn({1, 2, 7, 4}, at::kFloat);
  const at::Tensor lse = attention(query, key, key).lse;
  EXPECT_EQ(lse.sizes(), at::IntArrayRef({1, 2, 33}));
  EXPECT_EQ(lse.scalar_type(), at::kFloat);
  EXPECT_TRUE(lse.is_contiguous());
  EXPECT_LE(difference(lse, (at::matmul(query, key.transpose(2, 3)) / 2).logsumexp(-1)), 1e-6);
}

void expect_alike(const at::Tensor& real, const at::Tensor& meta) {
  EXPECT_TRUE(meta.is_meta());
  EXPECT_EQ(real.sizes(), meta.sizes());
  EXPECT_EQ(real.strides(), meta.strides());
  EXPECT_EQ(real.scalar_type(), meta.scalar_type());
  EXPECT_EQ(real.is_view(), meta.is_view());
}

TEST(Layout, MetaTensorsHaveTheRealSizesAndStrides) {
  for (const int64_t keys : {6, 0}) {
    for (const int64_t batch : {2, 0}) {
      at::Tensor query = randn({batch, 5, 4, 3}).transpose(1, 2), key = randn({batch, 2, keys, 3});
      at::Tensor value = randn({batch, 2, keys, 8}), bias = randn({4, 1, keys}).unsqueeze(0);
      std::vector<at::Tensor> real{query, key, value, bias}, meta;
      for (at::Tensor& tensor : real) {
        meta.push_back(tensor.to(at::kMeta).requires_grad_(true));
        tensor.requires_grad_(true);
      }
      AttentionOptions options, meta_options;
      options.bias = bias;
      meta_options.bias = meta[3];
      const auto got = attention(real[0], real[1], real[2], options);
      const auto fake = attention(meta[0], meta[1], meta[2], meta_options);
      expect_alike(got.output, fake.output);
      expect_alike(got.lse, fake.lse);
      const auto gradients = grad({got.output}, real, {at::ones_like(got.output)});
      const auto fakes = grad({fake.output}, meta, {at::ones_like(fake.output)});
      for (size_t n = 0; n < real.size(); ++n) expect_alike(gradients[n], fakes[n]);
    }
  }
}

double seconds(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

TEST(Threads, TwoOfThemReallyWork) {
  const at::Tensor query = randn({8, 8, 128, 32}, at::kFloat);
  at::set_num_threads(2);
  // On a busy machine the second thread may come too late for one call, but not for all.
  double share = 0;
  for (int call = 0; call < 100 && share <= 0.25; ++call) {
    const double process = seconds(CLOCK_PROCESS_CPUTIME_ID),
                 caller = seconds(CLOCK_THREAD_CPUTIME_ID);
    attention(query, query, query);
    const double all = seconds(CLOCK_PROCESS_CPUTIME_ID) - process;
    const double mine = seconds(CLOCK_THREAD_CPUTIME_ID) - caller;
    share = (all - mine) / all;
  }
  EXPECT_GT(share, 0.25) << "the calling thread did nearly all the work";
}

/// Output, log-sum-exp and gradients of a call with every feature, on so many threads.
std::vector<at::Tensor> bits_of(int64_t queries, int64_t keys, int threads) {
  at::manual_seed(3);
  std::vector<at::Tensor> t{
      randn({2, 4, queries, 16}, at::kFloat), randn({2, 2, keys, 16}, at::kFloat),
      randn({2, 2, keys, 16}, at::kFloat), randn({1, 4, queries, keys}, at::kFloat)};
  for (at::Tensor& tensor : t) tensor.requires_grad_(true);
  AttentionOptions options;
  options.bias = t[3];
  options.causal = true;
  options.dropout = 0.2;
  options.seed = at::scalar_tensor(7, at::kLong);
  at::set_num_threads(threads);
  const auto result = attention(t[0], t[1], t[2], options);
  auto tensors = grad({result.output, result.lse}, t,
                      {at::ones_like(result.output), at::ones_like(result.lse)});
  tensors.push_back(result.output);
  tensors.push_back(result.lse);
  return tensors;
}

// One block, and several that meet in turns.
TEST(Threads, ChangeNoBit) {
  for (const auto& [queries, keys] : {std::pair{70, 65}, std::pair{600, 300}}) {
    const auto one = bits_of(queries, keys, 1);
    for (const int threads : {2, 3, 7}) {
      const auto more = bits_of(queries, keys, threads);
      for (size_t n = 0; n < one.size(); ++n) {
        EXPECT_TRUE(at::equal(one[n], more[n])) << n << " on " << threads << " threads";
      }
    }
  }
}

TEST(Threads, ChangeNoBitOfDecoding) {
  const at::Tensor query = randn({3, 8, 1, 16}, at::kFloat);
  const at::Tensor keys = randn({3, 2, 1300, 16}, at::kFloat);
  const at::Tensor lengths = at::tensor({1300, 5, 700}, at::kLong);
  at::set_num_threads(1);
  const auto one = attention_decode(query, keys, keys, lengths);
  for (const int threads : {2, 3, 7}) {
    at::set_num_threads(threads);
    const auto more = attention_decode(query, keys, keys, lengths);
    EXPECT_TRUE(at::equal(one.output, more.output)) << threads;
    EXPECT_TRUE(at::equal(one.lse, more.lse)) << threads;
  }
}

}  // namespace
}  // namespace headwise::testing
