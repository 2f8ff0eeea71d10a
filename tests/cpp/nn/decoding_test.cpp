// Attention step by step, with a cache, equals attention over the whole sequence at once.
#include "tests/cpp/nn/support.h"

namespace headwise::nn::test {
namespace {

KeyValueCache cache_for(const MultiHeadAttention& module, int64_t rows, int64_t capacity) {
  return KeyValueCache(rows, module->options.num_kv_heads, capacity, module->options.head_dim,
                       module->k_proj->weight.options());
}

/// Feeds x (R, T, E) in pieces of the given lengths.
at::Tensor in_steps(MultiHeadAttention module, const at::Tensor& x,
                    const std::vector<int64_t>& chunks, KeyValueCache& cache) {
  std::vector<at::Tensor> outputs;
  int64_t begin = 0;
  for (const int64_t chunk : chunks) {
    outputs.push_back(module->forward_step(x.slice(1, begin, begin + chunk), cache));
    begin += chunk;
    EXPECT_EQ(cache.length(), begin);
  }
  return at::cat(outputs, 1);
}

at::Tensor at_once(MultiHeadAttention module, const at::Tensor& x) {
  AttentionMasks masks;
  masks.causal = true;
  return module->forward(x, x, x, masks).output;
}

TEST(Decoding, CachedEqualsUncachedForEveryChunking) {
  const at::NoGradGuard no_grad;
  for (const bool rotary : {false, true}) {
    MultiHeadAttentionOptions options = sizes(12, 6, 2);
    options.rotary = rotary;
    auto module = make_module(options);
    const at::Tensor x = at::randn({3, 9, 12}, at::kDouble);
    const at::Tensor want = at_once(module, x);
    const std::vector<std::vector<int64_t>> chunkings = {
        {9}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 8}, {4, 5}, {3, 1, 1, 1, 1, 1, 1}};
    for (const auto& chunks : chunkings) {
      KeyValueCache cache = cache_for(module, 3, 11);
      expect_close(in_steps(module, x, chunks, cache), want);
    }
  }
}

TEST(Decoding, PrefixLongerThanTwoCallsOfTheOpStaysCausal) {
  const at::NoGradGuard no_grad;
  auto module = make_module(sizes(12, 3));
  const at::Tensor x = at::randn({2, 21, 12}, at::kDouble);
  KeyValueCache cache = cache_for(module, 2, 21);
  expect_close(in_steps(module, x, {17, 4}, cache), at_once(module, x));
}

TEST(Decoding, ReorderedBeamsContinueTheRightPast) {
  const at::NoGradGuard no_grad;
  auto module = make_module(sizes(12, 4, 2));
  KeyValueCache cache = cache_for(module, 6, 10);
  // Two sentences grow to three beams each, beams cross, then some leave, then the order turns.
  const std::vector<std::vector<int64_t>> steps = {
      {0, 0, 0, 1, 1, 1}, {2, 0, 2, 5, 5, 4}, {1, 1, 0, 3, 5, 4}, {5, 2, 0, 3}, {3, 3, 0, 1}, {2}};
  at::Tensor history;  // (R, length, E): every row's tokens, copied whole as nobody should
  for (const auto& step : steps) {
    const at::Tensor parents = at::tensor(step, at::kLong);
    const at::Tensor fresh = at::randn({int64_t(step.size()), 1, 12}, at::kDouble);
    const void* memory = cache.keys().data_ptr();
    cache.reorder(parents);
    EXPECT_EQ(cache.live_rows(), int64_t(step.size()));
    const at::Tensor got = module->forward_step(fresh, cache);
    EXPECT_EQ(cache.keys().data_ptr(), memory);
    history = history.defined() ? at::cat({history.index_select(0, parents), fresh}, 1) : fresh;
    expect_close(got, at_once(module, history).slice(1, -1));
  }
}

TEST(Decoding, ReorderTouchesTheIndexOnly) {
  const at::NoGradGuard no_grad;
  KeyValueCache cache(3, 2, 4, 5, at::kFloat);
  cache.append(at::randn({3, 2, 2, 5}), at::randn({3, 2, 2, 5}));
  const at::Tensor keys = cache.keys().clone(), values = cache.values().clone();
  cache.reorder(at::tensor({2, 2}, at::kLong));
  EXPECT_TRUE(at::equal(cache.keys(), keys));
  EXPECT_TRUE(at::equal(cache.values(), values));
  EXPECT_TRUE(at::equal(cache.beam_index().slice(1, 0, 2), at::full({2, 2}, 2, at::kInt)));
}

TEST(Cache, IsSizedByKeyValueHeadsAndHeadWidth) {
  auto module = make_module(sizes(24, 8, 2, 5), at::kFloat);
  const KeyValueCache cache = cache_for(module, 3, 16);
  EXPECT_EQ(cache.keys().sizes(), at::IntArrayRef({3, 2, 16, 5}));
  EXPECT_EQ(cache.values().sizes(), at::IntArrayRef({3, 2, 16, 5}));
  EXPECT_EQ(cache.bytes(), 2 * 3 * 2 * 16 * 5 * 4 + 3 * 16 * 4);
}

TEST(Cache, OverrunRaisesBeforeAnythingIsWritten) {
  const at::NoGradGuard no_grad;
  for (const auto& [first, second] : {std::pair<int64_t, int64_t>{8, 1}, {5, 4}, {0, 9}}) {
    auto module = make_module(sizes(8, 2));
    KeyValueCache cache = cache_for(module, 2, 8);
    const at::Tensor x = at::randn({2, 9, 8}, at::kDouble);
    if (first > 0) module->forward_step(x.slice(1, 0, first), cache);
    const at::Tensor keys = cache.keys().clone(), values = cache.values().clone();
    const auto overrun = [&, second = second] {
      module->forward_step(x.slice(1, 0, second), cache);
    };
    expect_mentions(error_of(overrun), {std::to_string(first), "8", std::to_string(second)});
    EXPECT_EQ(cache.length(), first);
    EXPECT_TRUE(at::equal(cache.keys(), keys));
    EXPECT_TRUE(at::equal(cache.values(), values));
  }
}

TEST(Cache, RefusesOtherShapes) {
  KeyValueCache cache(2, 2, 8, 4, at::kFloat);
  const at::Tensor good = at::randn({2, 2, 1, 4});
  expect_mentions(error_of([&] {
                    cache.append(at::randn({3, 2, 1, 4}), good);
                  }),
                  {"(2, 2, T, 4)", "[3, 2, 1, 4]"});
  expect_mentions(error_of([&] { cache.append(good, at::randn({2, 2, 2, 4})); }), {"[2, 2, 2, 4]"});
  expect_mentions(error_of([&] { cache.append(good.to(at::kDouble), good); }), {"Float", "Double"});
  expect_mentions(error_of([&] { cache.reorder(at::tensor({0, 1, 1}, at::kLong)); }), {"3", "2"});
  expect_mentions(error_of([&] { cache.reorder(at::tensor({0, 1}, at::kInt)); }), {"int64"});
  EXPECT_NE(error_of([&] { cache.reorder(at::tensor({0, 2}, at::kLong)); }), "");
  EXPECT_NE(error_of([&] { KeyValueCache(2, 0, 8, 4, at::kFloat); }), "");
  EXPECT_NE(error_of([&] { KeyValueCache().append(good, good); }), "");
  EXPECT_EQ(cache.length(), 0);
}

TEST(Decoding, HasNoBackwardAndSaysSo) {
  auto module = make_module(sizes(8, 2));
  KeyValueCache cache = cache_for(module, 2, 8);
  const auto step = [&] { module->forward_step(at::randn({2, 1, 8}, at::kDouble), cache); };
  expect_mentions(error_of(step), {"forward_step", "NoGradGuard"});
  EXPECT_EQ(cache.length(), 0);
}

struct Source {
  std::vector<int64_t> lengths = {4, 1, 6};
  at::Tensor padded = at::randn({3, 6, 12}, at::kDouble);
  at::Tensor packed = pack(padded, lengths), starts = starts_of(lengths);
};

TEST(CrossAttention, StepsEqualTheWholeAtOnce) {
  const at::NoGradGuard no_grad;
  for (const auto& options : {sizes(12, 4), sizes(12, 4, 2, 5)}) {
    auto module = make_module(options);
    const Source source;
    const CrossCache cache =
        module->cross_cache(source.packed, source.packed, source.starts, /*max_key=*/6);
    // Beams of a sentence read the same memory; sentences in any order, some gone.
    const std::vector<int64_t> sentences = {2, 0, 0, 2, 2};
    const at::Tensor rows = at::tensor(sentences, at::kInt);
    const at::Tensor query = at::randn({5, 10, 12}, at::kDouble);
    const at::Tensor memory = source.padded.index_select(0, rows);
    AttentionMasks masks;
    masks.key_lengths = at::tensor(source.lengths, at::kLong).index_select(0, rows);
    const at::Tensor want = module->forward(query, memory, memory, masks).output;
    for (const int64_t chunk : {1, 4, 10}) {
      std::vector<at::Tensor> outputs;
      for (int64_t begin = 0; begin < 10; begin += chunk) {
        outputs.push_back(module->forward_cross_step(
            query.slice(1, begin, std::min<int64_t>(begin + chunk, 10)), cache, rows));
      }
      expect_close(at::cat(outputs, 1), want);
    }
  }
}

TEST(CrossAttention, SourceIsStoredOncePerSentence) {
  const at::NoGradGuard no_grad;
  auto module = make_module(sizes(12, 4, 2, 5));
  const Source source;
  const CrossCache cache = module->cross_cache(source.packed, source.packed, source.starts, 6);
  EXPECT_EQ(cache.keys.sizes(), at::IntArrayRef({3, 2, 6, 5}));
  EXPECT_EQ(cache.values.sizes(), at::IntArrayRef({3, 2, 6, 5}));
  EXPECT_TRUE(at::equal(cache.lengths, at::tensor({4, 1, 6}, at::kInt)));
  EXPECT_EQ(cache.bytes(), 2 * 3 * 2 * 6 * 5 * 8 + 3 * 4);
}

TEST(CrossAttention, PaddingOfTheCacheDoesNotMatter) {
  const at::NoGradGuard no_grad;
  auto module = make_module(sizes(12, 4), at::kFloat);
  const Source source;
  const at::Tensor packed = source.packed.to(at::kFloat), rows = at::tensor({0, 1, 2}, at::kInt);
  const at::Tensor query = at::randn({3, 1, 12});
  const CrossCache tight = module->cross_cache(packed, packed, source.starts, 6);
  CrossCache loose = module->cross_cache(packed, packed, source.starts, 100);
  loose.keys.slice(2, 6).fill_(NAN);
  loose.values.slice(2, 6).fill_(NAN);
  EXPECT_TRUE(at::equal(module->forward_cross_step(query, tight, rows),
                        module->forward_cross_step(query, loose, rows)));
}

TEST(CrossAttention, RefusesWhatCannotBe) {
  const at::NoGradGuard no_grad;
  auto module = make_module(sizes(12, 4));
  const Source source;
  const auto make = [&](int64_t max_key) {
    return module->cross_cache(source.packed, source.packed, source.starts, max_key);
  };
  expect_mentions(error_of([&] { make(5); }), {"max_key 5", "6"});
  const CrossCache cache = make(6);
  const at::Tensor query = at::randn({2, 1, 12}, at::kDouble);
  expect_mentions(
      error_of([&] { module->forward_cross_step(query, cache, at::zeros({3}, at::kInt)); }),
      {"2 query rows", "[3]"});
}

}  // namespace
}  // namespace headwise::nn::test
