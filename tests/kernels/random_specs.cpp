#include <algorithm>

#include "tests/kernels/attention_case.h"

namespace headwise::testing {

namespace {

// Mostly short, sometimes past the borders of a tile or a block.
int64_t length(Random& random) {
  const int64_t kind = random.below(20);
  return 1 + random.below(kind < 14 ? 40 : kind < 19 ? 150 : 320);
}

void choose_sizes(Random& random, Spec& spec) {
  spec.batch = 1 + random.below(3);
  spec.kv_heads = 1 + random.below(3);
  spec.heads = spec.kv_heads * (1 + random.below(3));
  if (random.chance(10)) spec.heads = spec.kv_heads * 8;
  spec.queries = length(random);
  spec.keys = length(random);
  // Pairs of rows and keys cost time; long ones come with few heads.
  if (spec.queries * spec.keys > 10000) spec.batch = spec.kv_heads = spec.heads = 1;
  spec.width = 1 + random.below(random.chance(80) ? 40 : 100);
  spec.value_width = 1 + random.below(random.chance(80) ? 40 : 100);
}

void choose_masks(Random& random, Spec& spec) {
  const auto axes = [&] {
    return Axes{random.chance(50), random.chance(50), random.chance(50), random.chance(75)};
  };
  spec.causal = random.chance(40);
  spec.align_end = random.chance(60);
  const int64_t widest = std::max<int64_t>(20, spec.keys / 2);
  if (random.chance(30)) spec.left = random.below(widest);
  if (random.chance(30)) spec.right = random.below(widest);
  if (random.chance(40)) spec.mask = axes();
  spec.keep = random.chance(50);
  spec.hide_tiles = random.chance(30);
  if (random.chance(40)) spec.bias = axes();
  spec.float_bias = random.chance(50);
}

// Few queries against a cache of up to three splits of the keys.
void turn_to_decoding(Random& random, Spec& spec) {
  spec.beam = 1 + static_cast<int>(random.below(2));
  spec.queries = 1 + random.below(8);
  spec.keys = spec.queries + random.below(1200);
  spec.kv_heads = 1 + random.below(2);
  spec.heads = spec.kv_heads * (1 + random.below(8));
  spec.packed = spec.lengths = false;
}

}  // namespace

std::vector<Spec> random_specs(int count, uint64_t seed) {
  Random random{static_cast<int64_t>(seed)};
  std::vector<Spec> specs;
  for (int n = 0; n < count; ++n) {
    Spec spec;
    spec.name = "random " + std::to_string(n);
    choose_sizes(random, spec);
    spec.packed = random.chance(40);
    spec.lengths = !spec.packed && random.chance(50);
    choose_masks(random, spec);
    if (random.chance(40)) spec.dropout = static_cast<double>(random.below(90)) / 100.0;
    spec.lse_gradient = random.chance(50);
    spec.layout = static_cast<Layout>(random.below(5));
    spec.gradient_layout = static_cast<Layout>(random.below(6));
    if (random.chance(10)) turn_to_decoding(random, spec);
    spec.seed = random();
    specs.push_back(spec);
  }
  return specs;
}

}  // namespace headwise::testing
