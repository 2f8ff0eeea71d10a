// Every bad call names the argument, what came and what is required.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "csrc/ops/attention.h"
#include "tests/cpp/ops/formula.h"

namespace headwise::testing {
namespace {

/// Runs a call and looks for every piece in its message.
void expect_message(const std::function<void()>& call, const std::vector<std::string>& pieces) {
  try {
    call();
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    for (const std::string& piece : pieces) {
      EXPECT_NE(message.find(piece), std::string::npos) << "no \"" << piece << "\" in: " << message;
    }
    return;
  }
  ADD_FAILURE() << "nothing was thrown; wanted " << pieces.front();
}

void expect_refused(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                    const std::vector<std::string>& pieces) {
  expect_message([&] { attention(q, k, v); }, pieces);
}

void expect_refused(const std::function<void(AttentionOptions&)>& spoil,
                    const std::vector<std::string>& pieces) {
  AttentionOptions options;
  spoil(options);
  const at::Tensor q = randn({3, 2, 4, 6}), k = randn({3, 2, 5, 6});
  expect_message([&] { attention(q, k, k, options); }, pieces);
}

TEST(BadCalls, Inputs) {
  const at::Tensor q = randn({3, 4, 4, 6}), k = randn({3, 2, 5, 6});
  expect_refused(q[0], k, k, {"query", "[4, 4, 6]", "4 dimensions"});
  expect_refused(q, k.to(at::kFloat), k, {"key is Float", "query is Double", "one dtype"});
  expect_refused(q, k, k.to(at::kFloat), {"value is Float"});
  expect_refused(q.to(at::kInt), k.to(at::kInt), k.to(at::kInt),
                 {"Int", "float32, bfloat16, float16 or float64"});
  expect_refused(q, k.to(at::kMeta), k, {"key is on meta", "cpu"});
  expect_refused(q, k.slice(0, 0, 2), k, {"key has 2 sequences", "3"});
  expect_refused(q, k, k.slice(2, 0, 4), {"value has 4 rows", "5"});
  expect_refused(q, k, k.slice(1, 0, 1), {"value has 1 heads", "2"});
  expect_refused(q, k.slice(3, 0, 5), k, {"key has 5 numbers a head", "6"});
  for (const auto& [heads, kv_heads] :
       std::vector<std::pair<int64_t, int64_t>>{{3, 2}, {33, 2}, {2, 4}, {4, 0}}) {
    const at::Tensor query = randn({1, heads, 2, 2}), key = randn({1, kv_heads, 2, 2});
    expect_refused(
        query, key, key,
        {"query has " + std::to_string(heads) + " heads and key " + std::to_string(kv_heads),
         "multiple"});
  }
  const at::Tensor wide = randn({1, 1, 1, 257}), none = randn({1, 1, 1, 0});
  expect_refused(wide, wide, wide, {"width 257", "1 to 256"});
  expect_refused(none, none, none, {"width 0", "1 to 256"});
}

TEST(BadCalls, Masks) {
  using O = AttentionOptions;
  const at::Tensor mask = at::zeros({4, 5}, at::kBool);
  expect_refused([&](O& o) { o.hide = o.keep = mask; }, {"hide and keep both came"});
  for (const std::vector<int64_t>& shape :
       {std::vector<int64_t>{3, 5}, {5, 4}, {3, 2, 5, 1}, {6, 4, 5}, {5}, {3, 4, 4, 5}}) {
    expect_refused([&](O& o) { o.hide = at::zeros(shape, at::kBool); },
                   {"hide has shape", "(B, H, T_q, T_k) = [3, 2, 4, 5]"});
    expect_refused([&](O& o) { o.bias = at::zeros(shape, at::kDouble); }, {"bias has shape"});
  }
  for (const auto type : {at::kLong, at::kFloat, at::kByte}) {
    expect_refused([&](O& o) { o.hide = at::zeros({4, 5}, type); }, {"hide is", "must be bool"});
  }
  expect_refused([&](O& o) { o.keep = at::zeros({4, 5}); }, {"keep is Float", "must be bool"});
  for (const auto type : {at::kLong, at::kBool, at::kHalf}) {
    expect_refused(
        [&](O& o) {
          o.bias = at::zeros({4, 5}, type);
        },
        {"bias is", "float32 or query's dtype, Double"});
  }
}

TEST(BadCalls, PositionsAndNumbers) {
  using O = AttentionOptions;
  const auto lengths = [](std::vector<int64_t> n) { return at::tensor(n); };
  expect_refused([&](O& o) { o.key_lengths = lengths({1, 2}); }, {"key_lengths", "[2]", "[3]"});
  expect_refused(
      [&](O& o) {
        o.key_lengths = lengths({1, 6, 2});
      },
      {"key_lengths[1] is 6", "at most 5"});
  expect_refused(
      [&](O& o) {
        o.query_lengths = lengths({-1, 1, 2});
      },
      {"query_lengths[0] is -1", "at least 0"});
  expect_refused([&](O& o) { o.query_lengths = at::zeros({3}); }, {"Float", "int32 or int64"});
  expect_refused(
      [&](O& o) {
        o.causal = true;
        o.key_lengths = lengths({1, 2, 3});
      },
      {"only key_lengths", "both lengths or neither"});
  expect_refused([](O& o) { o.window = {{-2, 0}}; }, {"window is (-2, 0)", "-1 for unbounded"});
  expect_refused([](O& o) { o.scale = HUGE_VAL; }, {"scale is inf", "finite"});
  for (const double dropout : {-0.1, 1.0, 1.5, std::nan("")}) {
    expect_refused([&](O& o) { o.dropout = dropout; }, {"dropout is", "at least 0 and below 1"});
  }
  expect_refused([](O& o) { o.seed = at::zeros({1}, at::kLong); }, {"seed is Long", "0-dim int64"});
  expect_refused([](O& o) { o.offset = -1; }, {"offset is -1", "2^32"});
}

TEST(BadCalls, Packed) {
  const at::Tensor q = randn({5, 2, 4});
  const auto call = [&](std::vector<int64_t> starts, const AttentionOptions& options) {
    const at::Tensor s = at::tensor(starts);
    attention_packed(q, q, q, s, s, 3, 3, options);
  };
  AttentionOptions options;
  expect_message([&] { call({0, 3, 2}, options); }, {"query_starts[2] is 2", "at least 3"});
  expect_message([&] { call({0, 3, 6}, options); }, {"query_starts[2] is 6", "at most 5"});
  expect_message([&] { call({}, options); }, {"query_starts", "(B + 1)"});
  options.hide = at::zeros({2, 2}, at::kBool);
  expect_message([&] { call({0, 3, 5}, options); }, {"[2, 2]", "3 queries and 3 keys"});
  AttentionOptions lengths;
  lengths.key_lengths = at::tensor(std::vector<int64_t>{3, 2});
  expect_message([&] { call({0, 3, 5}, lengths); }, {"key_lengths", "starts"});
}

TEST(BadCalls, Decoding) {
  const at::Tensor q = randn({2, 2, 1, 4}), cache = randn({2, 2, 6, 4});
  const auto lengths = [](std::vector<int64_t> n) { return at::tensor(n); };
  const auto call = [&](const at::Tensor& keys, const at::Tensor& n, const DecodeOptions& o) {
    attention_decode(q, keys, keys, n, o);
  };
  expect_message([&] { call(cache, lengths({7, 1}), {}); }, {"lengths[0] is 7", "at most 6"});
  expect_message(
      [&] {
        call(cache.slice(0, 0, 1), lengths({1, 1}), {});
      },
      {"key_cache has 1 rows", "2 sequences"});
  DecodeOptions options;
  options.beam_index = at::tensor(std::vector<int32_t>{0, 2}, at::kInt);
  expect_message(
      [&] {
        call(cache, lengths({1, 1}), options);
      },
      {"beam_index", "is 2", "rows 0 to 1"});
  options.beam_index = at::zeros({2, 5}, at::kInt);
  expect_message(
      [&] {
        call(cache, lengths({1, 1}), options);
      },
      {"beam_index", "[2, 5]", "[2, 6]"});
  expect_message(
      [&] {
        cache_append(cache, cache, q, q.slice(3, 0, 3), lengths({0, 0}));
      },
      {"value", "width 3"});
  expect_message(
      [&] {
        cache_append(cache, cache, q, q, lengths({6, 0}));
      },
      {"lengths", "is 6", "at most 5"});
}

}  // namespace
}  // namespace headwise::testing
