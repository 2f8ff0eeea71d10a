// The op against SDPA and the plain formula: values, gradients, masks, dropout, layouts.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <torch/autograd.h>

#include <vector>

#include "csrc/ops/attention.h"
#include "tests/cpp/ops/formula.h"

namespace headwise::testing {
namespace {

using torch::autograd::grad;
constexpr double kTight = 1e-12;  // double against double
constexpr double kFloat = 3e-6;   // float against float

std::vector<at::Tensor> inputs(int64_t batch, int64_t heads, int64_t kv_heads, int64_t queries,
                               int64_t keys, int64_t width, int64_t value_width,
                               at::ScalarType type = at::kDouble) {
  at::manual_seed(1);
  std::vector<at::Tensor> tensors{randn({batch, heads, queries, width}, type),
                                  randn({batch, kv_heads, keys, width}, type),
                                  randn({batch, kv_heads, keys, value_width}, type)};
  for (at::Tensor& tensor : tensors) tensor.requires_grad_(true);
  return tensors;
}

/// Output, LSE and every gradient of both, with random gradients from above.
void expect_same(const AttentionResult& got, const Formula& want,
                 const std::vector<at::Tensor>& leaves, double tolerance = kTight) {
  EXPECT_LE(difference(got.output, want.output), tolerance);
  EXPECT_LE(difference(got.lse, want.lse), tolerance);
  const at::Tensor g = at::randn_like(want.output), e = at::randn_like(want.lse);
  const auto ours = grad({got.output, got.lse}, leaves, {g, e});
  const auto theirs = grad({want.output, want.lse}, leaves, {g, e});
  for (size_t n = 0; n < leaves.size(); ++n) {
    EXPECT_LE(difference(ours[n], theirs[n]), tolerance) << "gradient " << n;
  }
}

TEST(AttentionOp, AgreesWithScaledDotProductAttention) {
  for (const bool causal : {false, true}) {
    auto t = inputs(2, 4, 4, 9, 9, 16, 16, at::kFloat);
    AttentionOptions options;
    options.causal = causal;
    const at::Tensor output = attention(t[0], t[1], t[2], options).output;
    const at::Tensor sdpa = at::scaled_dot_product_attention(t[0], t[1], t[2], {}, 0.0, causal);
    EXPECT_LE(difference(output, sdpa), kFloat);
    const at::Tensor g = at::randn_like(sdpa);
    const auto ours = grad({output}, t, {g}), theirs = grad({sdpa}, t, {g});
    for (size_t n = 0; n < t.size(); ++n) EXPECT_LE(difference(ours[n], theirs[n]), kFloat);
  }
}

TEST(AttentionOp, SumsGradientsOverGroups) {
  for (const int64_t kv_heads : {1, 2, 8}) {
    auto t = inputs(2, 8, kv_heads, 17, 17, 16, 16);
    expect_same(attention(t[0], t[1], t[2]), formula(t[0], t[1], t[2]), t);
  }
}

TEST(AttentionOp, QueryHeadsReadTheirBlockOfKeyHeads) {
  const at::Tensor query = at::zeros({1, 4, 1, 2}), key = at::zeros({1, 2, 3, 2});
  const at::Tensor value = at::arange(2.0).view({1, 2, 1, 1}).expand({1, 2, 3, 1}).to(at::kFloat);
  const at::Tensor output = attention(query, key, value).output.flatten();
  EXPECT_TRUE(at::equal(output, at::tensor({0.0f, 0.0f, 1.0f, 1.0f})));
}

TEST(AttentionOp, LinesUpTheEndsWhenLengthsDiffer) {
  const std::vector<std::pair<int64_t, int64_t>> shapes{{1, 8}, {3, 8}, {5, 2}, {5, 5}};
  for (const auto& [queries, keys] : shapes) {
    auto t = inputs(1, 2, 2, queries, keys, 4, 4);
    AttentionOptions options;
    options.causal = true;
    expect_same(attention(t[0], t[1], t[2], options),
                formula(t[0], t[1], t[2], future(queries, keys)), t);
  }
}

TEST(AttentionOp, BroadcastsEveryLegalMask) {
  constexpr int64_t kB = 3, kH = 2, kQ = 4, kK = 5;
  const std::vector<std::vector<int64_t>> shapes{
      {kQ, kK},        {1, kK},         {kQ, 1},         {1, 1, kQ, kK},  {kB, 1, 1, kK},
      {kB, 1, kQ, kK}, {1, kH, kQ, kK}, {kB, kH, kQ, 1}, {kB, kH, kQ, kK}};
  for (const auto& shape : shapes) {
    auto t = inputs(kB, kH, kH, kQ, kK, 6, 3);
    const at::Tensor hide = at::rand(shape) < 0.4;
    AttentionOptions options;
    options.hide = hide;
    const auto want = [&] { return formula(t[0], t[1], t[2], hide); };
    expect_same(attention(t[0], t[1], t[2], options), want(), t);
    AttentionOptions opposite;
    opposite.keep = hide.logical_not();
    expect_same(attention(t[0], t[1], t[2], opposite), want(), t);
    AttentionOptions expanded;  // stride 0
    expanded.hide = hide.expand({kB, kH, kQ, kK});
    expect_same(attention(t[0], t[1], t[2], expanded), want(), t);
    AttentionOptions additive;  // 0 and -infinity
    additive.bias =
        at::zeros(shape, at::kDouble).masked_fill(hide, -std::numeric_limits<double>::infinity());
    EXPECT_TRUE(at::equal(attention(t[0], t[1], t[2], additive).output,
                          attention(t[0], t[1], t[2], options).output));
  }
}

TEST(AttentionOp, GivesTheBiasItsGradientAlone) {
  const std::vector<std::vector<int64_t>> shapes{
      {4, 5}, {1, 5}, {1, 2, 4, 5}, {2, 1, 1, 5}, {1, 1}};
  for (const auto type : {at::kDouble, at::kFloat}) {
    for (const auto& shape : shapes) {
      auto t = inputs(2, 2, 2, 4, 5, 6, 3);
      for (at::Tensor& tensor : t) tensor.requires_grad_(false);
      const at::Tensor bias = randn(shape, type).requires_grad_(true);
      AttentionOptions options;
      options.bias = bias;
      const double tolerance = type == at::kDouble ? 1e-11 : 1e-6;
      const auto got = attention(t[0], t[1], t[2], options);
      const auto want = formula(t[0], t[1], t[2], std::nullopt, bias);
      const at::Tensor g = at::randn_like(want.output), e = at::randn_like(want.lse);
      const at::Tensor ours = grad({got.output, got.lse}, {bias}, {g, e})[0];
      EXPECT_EQ(ours.scalar_type(), type);
      EXPECT_LE(difference(ours, grad({want.output, want.lse}, {bias}, {g, e})[0]), tolerance);
    }
  }
}

// All of row 3 and of sequence 1's tail is hidden; the loss looks at the other rows only, and what
// comes back for the blank ones is NaN.
TEST(AttentionOp, BlankRowsAreZeroAndHarmNobody) {
  auto t = inputs(2, 2, 2, 6, 10, 8, 8);
  AttentionOptions options;
  at::Tensor hide = future(6, 10);
  hide[3] = true;
  options.hide = hide;
  const auto got = attention(t[0], t[1], t[2], options);
  EXPECT_TRUE((got.output.select(2, 3) == 0).all().item<bool>());
  EXPECT_TRUE(
      (got.lse.select(2, 3) == -std::numeric_limits<double>::infinity()).all().item<bool>());
  at::Tensor g = at::randn_like(got.output);
  at::Tensor poisoned = g.clone();
  poisoned.select(2, 3).fill_(std::numeric_limits<double>::quiet_NaN());
  const auto gradients = grad({got.output}, t, {poisoned});
  EXPECT_TRUE((gradients[0].select(2, 3) == 0).all().item<bool>());
  const std::vector<int64_t> rows{0, 1, 2, 4, 5};
  const at::Tensor others = at::tensor(rows);
  const auto want = formula(t[0].index_select(2, others), t[1], t[2], hide.index_select(0, others));
  const auto expected = grad({want.output}, t, {g.index_select(2, others)});
  for (size_t n = 0; n < t.size(); ++n) EXPECT_LE(difference(gradients[n], expected[n]), kTight);
}

TEST(AttentionOp, HiddenKeysMayHoldAnything) {
  for (const double bad : {std::nan(""), HUGE_VAL}) {
    auto t = inputs(1, 1, 1, 3, 2, 4, 4);
    AttentionOptions options;
    options.hide = at::arange(2).eq(1).view({1, 2});
    const auto clean = attention(t[0], t[1], t[2], options).output;
    at::Tensor key = t[1].detach().clone(), value = t[2].detach().clone();
    key.select(2, 1).fill_(bad);
    value.select(2, 1).fill_(bad);
    EXPECT_TRUE(at::equal(attention(t[0], key, value, options).output, clean));
    AttentionOptions lengths;
    lengths.key_lengths = at::tensor(std::vector<int64_t>{1});
    EXPECT_TRUE(at::equal(attention(t[0], key, value, lengths).output, clean));
  }
}

TEST(AttentionOp, CausalAndPaddingHoldTogether) {
  auto t = inputs(2, 2, 2, 6, 6, 8, 8);
  const at::Tensor lengths = at::tensor(std::vector<int32_t>{6, 3}, at::kInt);
  AttentionOptions options;
  options.causal = true;
  options.query_lengths = options.key_lengths = lengths;
  at::Tensor hidden = future(6, 6).expand({2, 1, 6, 6}).clone();
  hidden[1].slice(1, 3).fill_(true);  // rows past the length
  hidden[1].slice(2, 3).fill_(true);  // keys past it
  expect_same(attention(t[0], t[1], t[2], options), formula(t[0], t[1], t[2], hidden), t);
}

TEST(AttentionOp, TakesGradientsOfAnyStrides) {
  auto t = inputs(2, 4, 2, 32, 32, 16, 16);
  const at::Tensor output = attention(t[0], t[1], t[2]).output;
  const at::Tensor ones = at::ones_like(output, at::MemoryFormat::Contiguous);
  const at::Tensor wide = at::randn({4, 4, 32, 40}, at::kDouble);
  const std::vector<std::pair<at::Tensor, at::Tensor>> pairs{
      {at::ones({}, at::kDouble).expand(output.sizes()), ones},
      {wide.slice(0, 1, 3).slice(3, 5, 21), wide.slice(0, 1, 3).slice(3, 5, 21).contiguous()},
      {ones.transpose(2, 3).contiguous().transpose(2, 3), ones}};
  for (const auto& [strided, contiguous] : pairs) {
    const auto a = grad({output}, t, {strided}, true);
    const auto b = grad({output}, t, {contiguous}, true);
    for (size_t n = 0; n < t.size(); ++n) EXPECT_TRUE(at::equal(a[n], b[n]));
  }
}

TEST(AttentionOp, ReadsInputsOfAnyStrides) {
  auto t = inputs(2, 2, 2, 5, 7, 6, 6);
  const auto want = formula(t[0], t[1], t[2]);
  const at::Tensor query =
      t[0].transpose(1, 2).contiguous().transpose(1, 2);                     // (B, T, H, D) memory
  const at::Tensor key = t[1].transpose(2, 3).contiguous().transpose(2, 3);  // column stride T_k
  const at::Tensor value = at::stack({t[2], t[2] * 0}, -1).select(-1, 0);    // column stride 2
  expect_same(attention(query, key, value), want, t);
}

// Row number times stride beyond 2^31: only two pages of the address space are ever touched.
TEST(AttentionOp, CountsOffsetsInSixtyFourBits) {
  constexpr int64_t kStride = (int64_t{1} << 31) + 8, kBytes = (kStride + 8) * sizeof(float);
  void* memory = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) GTEST_SKIP() << "no 8 GiB of address space";
  {
    const at::Tensor key = at::from_blob(memory, {1, 1, 2, 4}, {8, 8, kStride, 1}, at::kFloat);
    key.copy_(randn({1, 1, 2, 4}, at::kFloat));
    const at::Tensor query = randn({1, 1, 3, 4}, at::kFloat),
                     value = randn({1, 1, 2, 4}, at::kFloat);
    EXPECT_LE(difference(attention(query, key, value).output,
                         attention(query, key.contiguous(), value).output),
              0.0);
  }
  munmap(memory, kBytes);
}

TEST(AttentionOp, ManySequencesAndHeads) {
  for (const auto& [batch, heads] :
       std::vector<std::pair<int64_t, int64_t>>{{70000, 1}, {1, 70000}}) {
    auto t = inputs(batch, heads, heads, 2, 2, 2, 2);
    expect_same(attention(t[0], t[1], t[2]), formula(t[0], t[1], t[2]), t);
  }
}

TEST(AttentionOp, EmptyTensorsGiveEmptyResults) {
  struct Sizes {
    int64_t batch, heads, queries, keys;
  };
  for (const auto& s :
       {Sizes{0, 2, 3, 3}, Sizes{2, 2, 0, 3}, Sizes{2, 2, 3, 0}, Sizes{2, 0, 3, 3}}) {
    for (const bool causal : {false, true}) {
      auto t = inputs(s.batch, s.heads, s.heads, s.queries, s.keys, 4, 5);
      AttentionOptions options;
      options.causal = causal;
      const auto got = attention(t[0], t[1], t[2], options);
      EXPECT_EQ(got.output.sizes(), at::IntArrayRef({s.batch, s.heads, s.queries, 5}));
      EXPECT_TRUE((got.output == 0).all().item<bool>());
      EXPECT_TRUE(got.lse.isneginf().all().item<bool>());
      for (const at::Tensor& g : grad({got.output.sum() + got.lse.exp().sum()}, t)) {
        EXPECT_TRUE((g == 0).all().item<bool>());
      }
    }
  }
}

}  // namespace
}  // namespace headwise::testing
