// Sizes that cross every border of the tiling: 48 rows and 128 keys of a tile, 240 rows of a block
// in forward, 256 rows and keys of a block in backward, 192 rows of the bias, splits of 1,024 keys.
#include "tests/kernels/attention_case.h"

namespace headwise::testing {

namespace {

constexpr Axes kWhole{true, true, true, true}, kPlane{false, false, true, true},
    kKeyOnly{true, false, false, true}, kRowOnly{true, true, true, false},
    kPerHead{false, true, true, true}, kNothing{false, false, false, false};

Spec sized(const char* name, int64_t queries, int64_t keys) {
  Spec spec;
  spec.name = name;
  spec.batch = 1;
  spec.heads = spec.kv_heads = 1;
  spec.queries = queries;
  spec.keys = keys;
  return spec;
}

Spec grouped(Spec spec, int64_t heads, int64_t kv_heads) {
  spec.heads = heads;
  spec.kv_heads = kv_heads;
  return spec;
}

void add_sizes(std::vector<Spec>& specs) {
  specs.push_back(grouped(sized("tiles of keys", 50, 300), 2, 2));
  specs.push_back(grouped(sized("tiles of rows", 300, 50), 2, 2));
  for (const int64_t n : {47, 48, 49, 127, 128, 129, 240, 241, 255, 256, 257}) {
    specs.push_back(sized("border", n, n));
    specs.back().name += " " + std::to_string(n);
    specs.back().causal = n % 2 == 0;
  }
  specs.push_back(sized("wide heads in tiles", 60, 140));
  specs.back().width = 256;
  specs.back().value_width = 250;
  specs.push_back(sized("heads of one number in tiles", 60, 140));
  specs.back().width = specs.back().value_width = 1;
  specs.push_back(grouped(sized("a group of 250 heads", 3, 130), 250, 1));
  specs.push_back(grouped(sized("tiles over several heads", 13, 140), 8, 1));
  specs.back().dropout = 0.2;
  specs.back().mask = specs.back().bias = kPerHead;
  specs.back().batch = 2;
  specs.push_back(grouped(sized("tiles over two heads of many", 55, 150), 6, 2));
  specs.back().causal = specs.back().lse_gradient = true;
  specs.push_back(grouped(sized("blocks of a group", 270, 30), 3, 1));
  specs.push_back(grouped(sized("large logits, long", 200, 300), 4, 4));
  specs.back().magnitude = 6.0;
  specs.push_back(grouped(sized("equal logits, long", 60, 300), 2, 2));
  specs.back().magnitude = 0.0;
}

void add_causal(std::vector<Spec>& specs) {
  const int64_t sizes[][2] = {{300, 290}, {530, 270}, {270, 530}, {600, 40}};
  for (const auto& [queries, keys] : sizes) {
    for (const bool align_end : {true, false}) {
      specs.push_back(sized("causal over blocks", queries, keys));
      specs.back().causal = true;
      specs.back().align_end = align_end;
      specs.back().lse_gradient = queries == 300;
    }
  }
  specs.push_back(sized("window that skips tiles", 400, 400));
  specs.back().left = 20;
  specs.back().right = 5;
  specs.push_back(sized("narrow window from the start", 300, 600));
  specs.back().left = 3;
  specs.back().right = 0;
  specs.back().align_end = false;
  specs.push_back(sized("window to the right only", 280, 300));
  specs.back().right = 130;
  specs.push_back(sized("window to the left only", 290, 270));
  specs.back().left = 100;
  specs.back().dropout = 0.3;
  specs.push_back(grouped(sized("causal window over a group", 280, 280), 3, 1));
  specs.back().causal = true;
  specs.back().left = 130;
}

void add_lengths(std::vector<Spec>& specs) {
  for (const bool packed : {false, true}) {
    for (const bool causal : {false, true}) {
      Spec spec = grouped(sized("blocks and empty sequences", 300, 280), 2, 1);
      spec.batch = 6;
      spec.packed = packed;
      spec.lengths = !packed;
      spec.causal = causal;
      spec.query_lengths = {300, 0, 17, 256, 257, 49};
      spec.key_lengths = {280, 129, 0, 128, 256, 257};
      spec.dropout = causal ? 0.1 : 0.0;
      spec.layout = packed ? Layout::kStridedColumns : Layout::kRowsFirst;
      specs.push_back(spec);
    }
  }
}

void add_elements(std::vector<Spec>& specs) {
  for (const Axes& axes : {kWhole, kPlane, kKeyOnly, kRowOnly, kPerHead}) {
    specs.push_back(grouped(sized("hidden tiles", 270, 400), 2, 2));
    specs.back().mask = axes;
    specs.back().hide_tiles = true;
    specs.back().keep = axes.batch;
    specs.push_back(grouped(sized("hidden entries", 100, 280), 2, 1));
    specs.back().mask = axes;
    specs.back().causal = axes.head;
  }
  for (const Axes& axes : {kWhole, kPlane, kKeyOnly, kRowOnly, kPerHead, kNothing}) {
    specs.push_back(grouped(sized("bias of many rows", 400, 140), 2, 1));
    specs.back().batch = 2;
    specs.back().lengths = axes.head;
    specs.back().bias = axes;
    specs.back().lse_gradient = true;
  }
  specs.push_back(grouped(sized("bias that hides, mask that hides tiles", 300, 300), 2, 2));
  specs.back().mask = specs.back().bias = kPlane;
  specs.back().hide_tiles = true;
  specs.back().dropout = 0.4;
  specs.push_back(grouped(sized("dropout at the borders", 100, 270), 3, 1));
  specs.back().left = 101;
  specs.back().dropout = 0.5;
}

void add_decoding(std::vector<Spec>& specs) {
  for (const int64_t queries : {1, 3, 8}) {
    for (const int beam : {1, 2}) {
      Spec spec = grouped(sized("decoding over splits", queries, 2200), 16, 2);
      spec.batch = 3;
      spec.beam = beam;
      spec.causal = true;
      spec.key_lengths = {1100, 515, 9};
      specs.push_back(spec);
      spec.name = "decoding with mask and bias";
      spec.heads = 2;
      spec.mask = kKeyOnly;
      spec.bias = kPerHead;
      spec.hide_tiles = true;
      specs.push_back(spec);
      spec.name = "decoding in a window";
      spec.mask = spec.bias = std::nullopt;
      spec.left = 60;
      specs.push_back(spec);
    }
  }
  specs.push_back(grouped(sized("few queries, splits and backward", 5, 1030), 4, 2));
  specs.back().batch = 2;
  specs.back().lengths = true;
  specs.back().dropout = 0.2;
  specs.back().bias = kPlane;
  specs.push_back(grouped(sized("a split without keys", 2, 1030), 2, 1));
  specs.back().left = 300;
  specs.back().lse_gradient = true;
  specs.push_back(grouped(sized("packed, few queries, splits", 8, 1100), 2, 1));
  specs.back().batch = 3;
  specs.back().packed = true;
}

}  // namespace

std::vector<Spec> long_specs() {
  std::vector<Spec> specs;
  add_sizes(specs);
  add_causal(specs);
  add_lengths(specs);
  add_elements(specs);
  add_decoding(specs);
  int64_t seed = 100;
  for (Spec& spec : specs) spec.seed = seed++;
  return specs;
}

}  // namespace headwise::testing
