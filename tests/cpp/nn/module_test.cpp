// Shapes, masks and heads of the padded form, against torch's module and the plain formula.
#include <ATen/record_function.h>
#include <torch/nn/modules/activation.h>

#include <cstring>

#include "tests/cpp/nn/support.h"

namespace headwise::nn::test {
namespace {

struct Inputs {
  at::Tensor query, key, value;
};

Inputs make_inputs(int64_t batch, int64_t queries, int64_t keys, int64_t width) {
  at::manual_seed(3);
  const auto random = [&](int64_t length) {
    return at::randn({batch, length, width}, at::kDouble);
  };
  return {random(queries), random(keys), random(keys)};
}

TEST(Module, EqualsTorchMultiheadAttentionWithTheSameWeights) {
  auto module = make_module(sizes(24, 4));
  torch::nn::MultiheadAttention torchs(torch::nn::MultiheadAttentionOptions(24, 4));
  torchs->to(at::kDouble);
  {
    const at::NoGradGuard no_grad;
    torchs->in_proj_weight.copy_(
        at::cat({module->q_proj->weight, module->k_proj->weight, module->v_proj->weight}));
    torchs->in_proj_bias.copy_(
        at::cat({module->q_proj->bias, module->k_proj->bias, module->v_proj->bias}));
    torchs->out_proj->weight.copy_(module->out_proj->weight);
    torchs->out_proj->bias.copy_(module->out_proj->bias);
  }
  const Inputs in = make_inputs(3, 5, 7, 24);
  const at::Tensor hidden = at::rand({3, 7}).lt(0.3).index_fill(1, at::zeros(1, at::kLong), false);
  AttentionMasks masks;
  masks.hide = hidden.view({3, 1, 1, 7});
  const AttentionOutput ours = module->forward(in.query, in.key, in.value, masks, true);
  const auto [output, weights] =
      torchs->forward(in.query.transpose(0, 1), in.key.transpose(0, 1), in.value.transpose(0, 1),
                      hidden, /*need_weights=*/true, {}, /*average_attn_weights=*/false);
  expect_close(ours.output, output.transpose(0, 1));
  expect_close(ours.weights, weights);
}

TEST(Module, EqualsThePlainFormulaForEveryHeadLayout) {
  const Inputs in = make_inputs(2, 6, 6, 12);
  for (const auto& options : {sizes(12, 1), sizes(12, 4, 2), sizes(12, 4, 1), sizes(12, 6, 3, 5)}) {
    auto module = make_module(options);
    AttentionMasks masks;
    masks.causal = true;
    const Reference want = reference(module, in.query, in.key, in.value, causal_hidden(6));
    const AttentionOutput got = module->forward(in.query, in.key, in.value, masks, true);
    expect_close(got.output, want.output);
    expect_close(got.weights, want.weights);
  }
}

TEST(Module, TakesOtherWidthsForKeysAndValuesAndNoBias) {
  MultiHeadAttentionOptions options = sizes(12, 3);
  options.kdim = 5;
  options.vdim = 9;
  options.bias = false;
  auto module = make_module(options);
  EXPECT_EQ(module->named_parameters().size(), 4U);
  const at::Tensor query = at::randn({2, 4, 12}, at::kDouble);
  const at::Tensor key = at::randn({2, 7, 5}, at::kDouble);
  const at::Tensor value = at::randn({2, 7, 9}, at::kDouble);
  expect_close(module->forward(query, key, value).output,
               reference(module, query, key, value, nothing_hidden()).output);
}

TEST(Module, GroupedHeadsEqualRepeatedHeads) {
  auto grouped = make_module(sizes(16, 4, 2));
  auto full = make_module(sizes(16, 4));
  {
    const at::NoGradGuard no_grad;
    const auto repeat = [](const at::Tensor& rows) {  // blocks 0 0 1 1, never 0 1 0 1
      return rows.unflatten(0, {2, 4}).repeat_interleave(2, 0).flatten(0, 1);
    };
    for (auto [to, from] :
         {std::pair{full->k_proj, grouped->k_proj}, std::pair{full->v_proj, grouped->v_proj}}) {
      to->weight.copy_(repeat(from->weight));
      to->bias.copy_(repeat(from->bias));
    }
    full->q_proj->weight.copy_(grouped->q_proj->weight);
    full->q_proj->bias.copy_(grouped->q_proj->bias);
    full->out_proj->weight.copy_(grouped->out_proj->weight);
    full->out_proj->bias.copy_(grouped->out_proj->bias);
  }
  const Inputs in = make_inputs(2, 5, 9, 16);
  expect_close(grouped->forward(in.query, in.key, in.value).output,
               full->forward(in.query, in.key, in.value).output);
}

TEST(Module, MasksCombineAndRowsThatSeeNothingGiveTheOutputBias) {
  auto module = make_module(sizes(12, 2));
  const Inputs in = make_inputs(3, 5, 5, 12);
  AttentionMasks masks;
  masks.causal = true;
  masks.key_lengths = at::tensor({5, 2, 0}, at::kInt);
  masks.query_lengths = at::tensor({5, 2, 0}, at::kInt);
  masks.hide = at::zeros({5, 5}, at::kBool);
  masks.hide->index_put_({3, 1}, true);
  const at::Tensor length = masks.key_lengths->view({3, 1, 1, 1});
  const at::Tensor past_key = at::arange(5).view({1, 1, 1, 5}) >= length;
  const at::Tensor past_query = at::arange(5).view({1, 1, 5, 1}) >= length;
  const at::Tensor hidden = past_key | past_query | causal_hidden(5) | *masks.hide;
  const AttentionOutput got = module->forward(in.query, in.key, in.value, masks, true);
  const Reference want = reference(module, in.query, in.key, in.value, hidden);
  expect_close(got.output, want.output);
  expect_close(got.weights, want.weights);
  EXPECT_TRUE(at::equal(got.output[2][0], module->out_proj->bias));
  EXPECT_EQ(got.weights.masked_select(hidden.expand_as(got.weights)).abs().max().item<double>(), 0);
}

TEST(Module, HiddenKeysNeverMatterAndVisibleOnesDo) {
  auto module = make_module(sizes(12, 3), at::kFloat);
  const Inputs in = make_inputs(2, 4, 6, 12);
  const at::Tensor query = in.query.to(at::kFloat), key = in.key.to(at::kFloat);
  AttentionMasks by_hide, by_length;
  by_hide.hide = (at::arange(6) >= 4).view({1, 1, 1, 6});
  by_length.key_lengths = at::tensor({4, 4}, at::kInt);
  for (const AttentionMasks& masks : {by_hide, by_length}) {
    const at::Tensor before = module->forward(query, key, key, masks).output;
    for (const double garbage : {7.0, double(NAN), double(INFINITY)}) {
      at::Tensor changed = key.clone();
      changed.slice(1, 4).fill_(garbage);
      EXPECT_TRUE(at::equal(before, module->forward(query, changed, changed, masks).output));
    }
    at::Tensor changed = key.clone();
    changed.select(1, 3).add_(1);
    const at::Tensor after = module->forward(query, changed, changed, masks).output;
    EXPECT_TRUE((after != before).any(-1).all().item<bool>());
  }
}

TEST(Module, FutureTokensNeverMatterUnderCausal) {
  auto module = make_module(sizes(12, 3), at::kFloat);
  const at::Tensor x = at::randn({2, 6, 12});
  AttentionMasks masks;
  masks.causal = true;
  at::Tensor changed = x.clone();
  changed.slice(1, 4).normal_();
  const at::Tensor before = module->forward(x, x, x, masks).output;
  const at::Tensor after = module->forward(changed, changed, changed, masks).output;
  EXPECT_TRUE(at::equal(before.slice(1, 0, 4), after.slice(1, 0, 4)));
  EXPECT_FALSE(at::equal(before.slice(1, 4), after.slice(1, 4)));
}

TEST(Module, AskingForWeightsLeavesTheOutputBitwiseEqual) {
  for (const bool training : {false, true}) {
    MultiHeadAttentionOptions options = sizes(16, 4, 2);
    options.dropout = 0.25;
    auto module = make_module(options, at::kFloat);
    module->train(training);
    const at::Tensor x = at::randn({2, 9, 16});
    AttentionMasks masks;
    masks.causal = true;
    masks.key_lengths = at::tensor({9, 6}, at::kInt);
    masks.query_lengths = masks.key_lengths;
    at::manual_seed(5);
    const at::Tensor without = module->forward(x, x, x, masks).output;
    at::manual_seed(5);
    const AttentionOutput with = module->forward(x, x, x, masks, /*need_weights=*/true);
    EXPECT_TRUE(at::equal(without, with.output));
    EXPECT_EQ(with.weights.sizes(), at::IntArrayRef({2, 4, 9, 9}));
    expect_close(with.weights[0].sum(-1), at::ones({4, 9}), 1e-5);  // without dropout's scaling
  }
}

TEST(Module, DropsOnlyInTraining) {
  MultiHeadAttentionOptions options = sizes(16, 4);
  options.dropout = 0.5;
  auto module = make_module(options, at::kFloat);
  const at::Tensor x = at::randn({2, 9, 16});
  const auto run = [&] { return module->forward(x, x, x).output; };
  module->eval();
  const at::Tensor evaluated = run();
  EXPECT_TRUE(at::equal(evaluated, run()));
  module->train();
  at::manual_seed(11);
  const at::Tensor first = run();
  EXPECT_FALSE(at::equal(first, run()));
  at::manual_seed(11);
  EXPECT_TRUE(at::equal(first, run()));
  module->eval();
  EXPECT_TRUE(at::equal(evaluated, run()));
}

TEST(Module, EveryParameterGetsAGradient) {
  auto module = make_module(sizes(16, 4, 2));
  const at::Tensor x = at::randn({2, 5, 16}, at::kDouble);
  module->forward(x, x, x).output.pow(2).sum().backward();
  for (const auto& item : module->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    // A bias of the keys shifts all scores of a row alike: its true gradient is 0.
    if (item.key() == "k_proj.bias") continue;
    EXPECT_GT(item.value().grad().abs().max().item<double>(), 0) << item.key();
  }
}

TEST(Module, GradientsEqualThoseOfThePlainFormula) {
  auto module = make_module(sizes(12, 4, 2, 5));
  const at::Tensor x = at::randn({2, 6, 12}, at::kDouble);
  AttentionMasks masks;
  masks.causal = true;
  const std::vector<at::Tensor> parameters = module->parameters();
  const auto gradients = [&](const at::Tensor& output) {
    return torch::autograd::grad({output.pow(2).sum()}, parameters);
  };
  const auto got = gradients(module->forward(x, x, x, masks).output);
  const auto want = gradients(reference(module, x, x, x, causal_hidden(6)).output);
  for (size_t i = 0; i < got.size(); ++i) expect_close(got[i], want[i], 1e-10);
}

/// Counts copies made outside of the op itself while it lives.
class CopyCounter {
 public:
  CopyCounter() {
    count_ = depth_ = 0;
    handle_ = at::addGlobalCallback(
        at::RecordFunctionCallback(&start, &end).scopes({at::RecordScope::FUNCTION}));
  }
  ~CopyCounter() { at::removeCallback(handle_); }
  int count() const { return count_; }

 private:
  static bool is_op(const at::RecordFunction& f) { return !std::strncmp(f.name(), "headwise", 8); }
  static std::unique_ptr<at::ObserverContext> start(const at::RecordFunction& f) {
    if (is_op(f)) ++depth_;
    for (const char* copy : {"aten::copy_", "aten::clone", "aten::contiguous"}) {
      if (depth_ == 0 && !std::strcmp(f.name(), copy)) ++count_;
    }
    return nullptr;
  }
  static void end(const at::RecordFunction& f, at::ObserverContext*) {
    if (is_op(f)) --depth_;
  }

  static inline int count_ = 0, depth_ = 0;
  at::CallbackHandle handle_;
};

TEST(Module, SplittingAndMergingHeadsCopiesNothing) {
  MultiHeadAttentionOptions options = sizes(16, 4, 2);
  auto module = make_module(options, at::kFloat);
  const at::Tensor x = at::randn({3, 7, 16});
  const at::NoGradGuard no_grad;
  {
    const CopyCounter counter;
    module->forward(x, x, x);
    EXPECT_EQ(counter.count(), 0);
    x.transpose(0, 1).contiguous();
    EXPECT_GT(counter.count(), 0) << "the counter sees no copies at all";
  }
  // Without W_O the output is the op's own memory, seen as (B, T, H * D).
  options.out_proj = false;
  auto bare = make_module(options, at::kFloat);
  const at::Tensor output = bare->forward(x, x, x).output;
  EXPECT_TRUE(output.is_contiguous());
  EXPECT_EQ(output.storage().nbytes(), 3U * 7 * 16 * sizeof(float));
  EXPECT_EQ(output.storage().data_ptr().get(), output.data_ptr());
}

TEST(Module, EmptyBatchesAndSequencesAreLegal) {
  auto module = make_module(sizes(8, 2));
  for (const auto [batch, queries, keys] : {std::array{0, 3, 4}, {2, 0, 4}, {2, 3, 0}}) {
    const at::Tensor query = at::randn({batch, queries, 8}, at::kDouble);
    const at::Tensor key = at::randn({batch, keys, 8}, at::kDouble);
    const at::Tensor output = module->forward(query, key, key).output;
    EXPECT_EQ(output.sizes(), query.sizes());
    output.sum().backward();
  }
}

}  // namespace
}  // namespace headwise::nn::test
