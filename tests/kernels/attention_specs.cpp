#include "tests/kernels/attention_case.h"

namespace headwise::testing {

std::vector<Spec> edge_specs() {
  const Axes whole{true, true, true, true}, plane{false, false, true, true},
      key_only{true, false, false, true}, row_only{true, true, true, false},
      per_head{false, true, true, true}, nothing{false, false, false, false};
  return {
      {.name = "plain"},
      {.name = "one query", .queries = 1},
      {.name = "one key", .keys = 1},
      {.name = "one of everything",
       .batch = 1,
       .heads = 1,
       .kv_heads = 1,
       .queries = 1,
       .keys = 1,
       .width = 1,
       .value_width = 1},
      {.name = "no sequences", .batch = 0},
      {.name = "no queries", .queries = 0},
      {.name = "no keys", .keys = 0, .causal = true, .lse_gradient = true},
      {.name = "no heads", .heads = 0, .kv_heads = 0},
      {.name = "odd widths", .width = 37, .value_width = 5},
      {.name = "widest", .width = 256, .value_width = 255},
      {.name = "narrow keys, wide values", .width = 3, .value_width = 64},
      {.name = "more rows than one item",
       .queries = 150,
       .keys = 70,
       .causal = true,
       .layout = Layout::kRowsFirst},
      {.name = "groups of four", .heads = 8, .kv_heads = 2, .queries = 17, .width = 16},
      {.name = "one kv head", .heads = 6, .kv_heads = 1, .lengths = true, .causal = true},
      {.name = "causal, 1 query 8 keys", .queries = 1, .keys = 8, .causal = true},
      {.name = "causal, 3 queries 8 keys", .queries = 3, .keys = 8, .causal = true},
      {.name = "causal, 5 queries 2 keys", .queries = 5, .keys = 2, .causal = true},
      {.name = "causal from the start",
       .queries = 5,
       .keys = 2,
       .causal = true,
       .align_end = false},
      {.name = "window", .queries = 9, .keys = 12, .left = 2, .right = 1},
      {.name = "window of one", .queries = 6, .keys = 6, .left = 0, .right = 0},
      {.name = "left window from the start",
       .queries = 9,
       .keys = 5,
       .align_end = false,
       .left = 1},
      {.name = "causal cuts a wide window", .lengths = true, .causal = true, .left = 3, .right = 4},
      {.name = "largest window", .left = INT64_MAX, .right = INT64_MAX},
      {.name = "lengths", .batch = 4, .lengths = true},
      {.name = "hide plane", .mask = plane},
      {.name = "hide keys", .mask = key_only},
      {.name = "hide everywhere", .mask = whole},
      {.name = "keep per head", .mask = per_head, .keep = true},
      {.name = "hide rows", .mask = row_only},
      {.name = "hide by one number", .mask = nothing},
      {.name = "bias everywhere", .bias = whole, .lse_gradient = true},
      {.name = "bias plane", .batch = 3, .bias = plane},
      {.name = "bias per head", .heads = 4, .bias = per_head},
      {.name = "bias of keys", .bias = key_only},
      {.name = "bias of rows", .bias = row_only},
      {.name = "bias of one number", .lengths = true, .bias = nothing},
      {.name = "float bias", .bias = plane, .float_bias = true},
      {.name = "dropout", .keys = 70, .dropout = 0.3},
      {.name = "dropout of nearly all", .keys = 40, .dropout = 0.99},
      {.name = "padded, causal, dropout", .lengths = true, .causal = true, .dropout = 0.1},
      {.name = "packed", .batch = 4, .packed = true},
      {.name = "packed, everything",
       .batch = 5,
       .heads = 4,
       .queries = 12,
       .keys = 40,
       .packed = true,
       .causal = true,
       .left = 20,
       .mask = key_only,
       .bias = per_head,
       .dropout = 0.2,
       .lse_gradient = true,
       .layout = Layout::kStridedColumns},
      {.name = "rows first", .layout = Layout::kRowsFirst},
      {.name = "strided columns", .lengths = true, .layout = Layout::kStridedColumns},
      {.name = "scale given", .scale = 0.7},
      {.name = "scale negative", .scale = -0.3},
      {.name = "large logits", .queries = 60, .keys = 60, .magnitude = 30.0},
      {.name = "equal logits", .magnitude = 0.0},
      {.name = "cache rows of sequences", .batch = 3, .queries = 2, .causal = true, .beam = 1},
      {.name = "cache rows of positions", .batch = 3, .queries = 1, .causal = true, .beam = 2},
  };
}

std::vector<Spec> random_specs(int count, uint64_t seed) {
  std::mt19937_64 generator(seed);
  const auto below = [&](int64_t n) {
    return std::uniform_int_distribution<int64_t>(0, n - 1)(generator);
  };
  const auto chance = [&](int percent) { return below(100) < percent; };
  const auto axes = [&] { return Axes{chance(50), chance(50), chance(50), chance(75)}; };
  std::vector<Spec> specs;
  for (int n = 0; n < count; ++n) {
    Spec spec;
    spec.name = "random " + std::to_string(n);
    spec.batch = 1 + below(4);
    spec.kv_heads = 1 + below(3);
    spec.heads = spec.kv_heads * (1 + below(3));
    spec.queries = 1 + below(40);
    spec.keys = 1 + below(40);
    spec.width = 1 + below(40);
    spec.value_width = 1 + below(40);
    spec.packed = chance(40);
    spec.lengths = !spec.packed && chance(50);
    spec.causal = chance(40);
    spec.align_end = chance(60);
    if (chance(30)) spec.left = below(20);
    if (chance(30)) spec.right = below(20);
    if (chance(40)) spec.mask = axes();
    spec.keep = chance(50);
    if (chance(40)) spec.bias = axes();
    spec.float_bias = chance(50);
    if (chance(40)) spec.dropout = static_cast<double>(below(90)) / 100.0;
    spec.lse_gradient = chance(50);
    spec.layout = static_cast<Layout>(below(3));
    spec.seed = generator();
    specs.push_back(spec);
  }
  return specs;
}

}  // namespace headwise::testing
