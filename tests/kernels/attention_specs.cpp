#include "tests/kernels/attention_case.h"

namespace headwise::testing {

namespace {

constexpr Axes kWhole{true, true, true, true}, kPlane{false, false, true, true},
    kKeyOnly{true, false, false, true}, kRowOnly{true, true, true, false},
    kPerHead{false, true, true, true}, kNothing{false, false, false, false};

std::vector<Spec> sizes() {
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
  };
}

std::vector<Spec> masks() {
  return {
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
      {.name = "hide plane", .mask = kPlane},
      {.name = "hide keys", .mask = kKeyOnly},
      {.name = "hide everywhere", .mask = kWhole},
      {.name = "keep per head", .mask = kPerHead, .keep = true},
      {.name = "hide rows", .mask = kRowOnly},
      {.name = "hide by one number", .mask = kNothing},
  };
}

std::vector<Spec> biases_and_dropout() {
  return {
      {.name = "bias everywhere", .bias = kWhole, .lse_gradient = true},
      {.name = "bias plane", .batch = 3, .bias = kPlane},
      {.name = "bias per head", .heads = 4, .bias = kPerHead},
      {.name = "bias of keys", .bias = kKeyOnly},
      {.name = "bias of rows", .bias = kRowOnly},
      {.name = "bias of one number", .lengths = true, .bias = kNothing},
      {.name = "float bias", .bias = kPlane, .float_bias = true},
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
       .mask = kKeyOnly,
       .bias = kPerHead,
       .dropout = 0.2,
       .lse_gradient = true,
       .layout = Layout::kStridedColumns},
  };
}

std::vector<Spec> layouts_and_numbers() {
  return {
      {.name = "rows first", .layout = Layout::kRowsFirst},
      {.name = "strided columns", .lengths = true, .layout = Layout::kStridedColumns},
      {.name = "scale given", .scale = 0.7},
      {.name = "scale negative", .scale = -0.3},
      {.name = "large logits", .batch = 4, .queries = 40, .keys = 50, .magnitude = 30.0},
      {.name = "equal logits", .magnitude = 0.0},
      {.name = "products past the range of Half", .width = 64, .magnitude = 500.0},
      {.name = "gradient of one number", .lengths = true, .gradient_layout = Layout::kExpanded},
      {.name = "gradient transposed", .gradient_layout = Layout::kColumnsFirst},
      {.name = "inputs transposed", .lengths = true, .layout = Layout::kColumnsFirst},
      {.name = "no gaps", .lengths = true, .layout = Layout::kDense},
      {.name = "no gaps, odd widths", .width = 13, .value_width = 9, .layout = Layout::kDense},
      {.name = "empty sequences between others",
       .batch = 5,
       .lengths = true,
       .query_lengths = {5, 0, 3, 4, 0},
       .key_lengths = {7, 5, 0, 1, 0},
       .bias = kPlane,
       .lse_gradient = true},
      {.name = "empty sequences between others, packed",
       .batch = 5,
       .packed = true,
       .query_lengths = {5, 0, 3, 4, 0},
       .key_lengths = {7, 5, 0, 1, 0},
       .causal = true,
       .bias = kPlane},
      {.name = "transposed mask and bias",
       .mask = kPlane,
       .bias = kWhole,
       .layout = Layout::kColumnsFirst},
      {.name = "cache rows of sequences", .batch = 3, .queries = 2, .causal = true, .beam = 1},
      {.name = "cache rows of positions", .batch = 3, .queries = 1, .causal = true, .beam = 2},
  };
}

}  // namespace

std::vector<Spec> edge_specs() {
  std::vector<Spec> specs;
  for (const auto& list : {sizes(), masks(), biases_and_dropout(), layouts_and_numbers()}) {
    specs.insert(specs.end(), list.begin(), list.end());
  }
  return specs;
}

}  // namespace headwise::testing
