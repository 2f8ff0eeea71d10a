// Sequences end to end give what the same sequences give one below the other, padded.
#include "tests/cpp/nn/support.h"

namespace headwise::nn::test {
namespace {

struct Batch {
  std::vector<int64_t> query_lengths, key_lengths;
  at::Tensor query, key;  // (B, max, E)
  AttentionMasks masks;
  PackedSequences sequences;
};

Batch make_batch(const std::vector<int64_t>& query_lengths,
                 const std::vector<int64_t>& key_lengths) {
  at::manual_seed(9);
  const auto longest = [](const std::vector<int64_t>& l) {
    return *std::max_element(l.begin(), l.end());
  };
  const int64_t batch = query_lengths.size();
  Batch result{query_lengths, key_lengths, {}, {}, {}, {}};
  result.query = at::randn({batch, longest(query_lengths), 12}, at::kDouble);
  result.key = at::randn({batch, longest(key_lengths), 12}, at::kDouble);
  result.masks.query_lengths = at::tensor(query_lengths, at::kLong);
  result.masks.key_lengths = at::tensor(key_lengths, at::kLong);
  result.sequences = {starts_of(query_lengths), starts_of(key_lengths), longest(query_lengths),
                      longest(key_lengths)};
  return result;
}

void expect_packed_equals_padded(MultiHeadAttention module, const Batch& batch, bool causal) {
  AttentionMasks masks = batch.masks;
  masks.causal = causal;
  const at::Tensor query = pack(batch.query, batch.query_lengths);
  const at::Tensor key = pack(batch.key, batch.key_lengths);
  const AttentionOutput padded = module->forward(batch.query, batch.key, batch.key, masks, true);
  const at::Tensor packed =
      module->forward_packed(query, key, key, batch.sequences, {.causal = causal});
  const at::Tensor rows = pack(padded.output, batch.query_lengths);
  expect_close(packed, rows);
  expect_close(module->attention_weights_packed(query, key, batch.sequences, {.causal = causal}),
               padded.weights);

  const at::Tensor direction = at::randn_like(rows);
  const auto gradients = [&](const at::Tensor& output) {
    return torch::autograd::grad({(output * direction).sum()}, module->parameters());
  };
  const auto got = gradients(packed), want = gradients(rows);
  for (size_t i = 0; i < got.size(); ++i) expect_close(got[i], want[i], 1e-10);
}

TEST(Packed, SelfAttentionEqualsPadded) {
  const Batch batch = make_batch({5, 1, 7, 3}, {5, 1, 7, 3});
  Batch self = batch;
  self.key = self.query;
  for (const bool causal : {false, true}) {
    for (const bool rotary : {false, true}) {
      MultiHeadAttentionOptions options = sizes(12, 6, 2);
      options.rotary = rotary;
      expect_packed_equals_padded(make_module(options), self, causal);
    }
  }
}

TEST(Packed, CrossAttentionEqualsPadded) {
  expect_packed_equals_padded(make_module(sizes(12, 4, 2, 5)), make_batch({2, 6, 4}, {7, 3, 1}),
                              /*causal=*/false);
}

TEST(Packed, HideIndexesInsideASequence) {
  auto module = make_module(sizes(12, 2));
  const Batch batch = make_batch({4, 3}, {5, 2});
  AttentionMasks masks = batch.masks;
  masks.hide = at::zeros({2, 1, 4, 5}, at::kBool);
  masks.hide->index_put_({0, 0, 2, 1}, true);
  masks.hide->index_put_({1, 0, 1, 0}, true);
  const at::Tensor query = pack(batch.query, batch.query_lengths);
  const at::Tensor key = pack(batch.key, batch.key_lengths);
  const at::Tensor padded = module->forward(batch.query, batch.key, batch.key, masks).output;
  const at::Tensor packed =
      module->forward_packed(query, key, key, batch.sequences, {.hide = masks.hide});
  expect_close(packed, pack(padded, batch.query_lengths));
  EXPECT_FALSE(at::equal(packed, module->forward_packed(query, key, key, batch.sequences)));
}

TEST(Packed, ASentenceDoesNotSeeItsNeighbours) {
  auto module = make_module(sizes(12, 3), at::kFloat);
  const Batch batch = make_batch({3, 5, 4}, {3, 5, 4});
  const at::Tensor x = pack(batch.query, batch.query_lengths).to(at::kFloat);
  const at::Tensor before = module->forward_packed(x, x, x, batch.sequences);
  at::Tensor changed = x.clone();
  changed.slice(0, 3, 8).fill_(NAN);
  const at::Tensor after = module->forward_packed(changed, changed, changed, batch.sequences);
  EXPECT_TRUE(at::equal(before.slice(0, 0, 3), after.slice(0, 0, 3)));
  EXPECT_TRUE(at::equal(before.slice(0, 8), after.slice(0, 8)));
}

TEST(Packed, DropsOnlyInTraining) {
  MultiHeadAttentionOptions options = sizes(12, 3);
  options.dropout = 0.5;
  auto module = make_module(options);
  const Batch batch = make_batch({3, 5}, {3, 5});
  const at::Tensor x = pack(batch.query, batch.query_lengths);
  const auto run = [&] { return module->forward_packed(x, x, x, batch.sequences); };
  module->eval();
  EXPECT_TRUE(at::equal(run(), run()));
  module->train();
  EXPECT_FALSE(at::equal(run(), run()));
}

}  // namespace
}  // namespace headwise::nn::test
