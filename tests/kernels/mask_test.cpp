// The key range of a row against the rule, key by key.
#include "csrc/kernels/attention/mask.h"

#include <gtest/gtest.h>

namespace headwise::kernels {
namespace {

TEST(VisibleRange, HoldsExactlyTheKeysOfTheRule) {
  const int64_t windows[] = {-1, 0, 1, 3, INT64_MAX};
  for (int64_t queries = 0; queries <= 6; ++queries) {
    for (int64_t keys = 0; keys <= 6; ++keys) {
      for (int setting = 0; setting < 100; ++setting) {
        const MaskRule rule{setting % 2 == 0, setting / 2 % 2 == 0, windows[setting / 4 % 5],
                            windows[setting / 20]};
        for (int64_t i = 0; i < 8; ++i) {
          const KeyRange range = visible_range(rule, i, queries, keys);
          const int64_t shifted = i + (rule.align_end ? keys - queries : 0);
          for (int64_t j = 0; j < 8; ++j) {
            const bool visible = i < queries && j < keys && (!rule.causal || j <= shifted) &&
                                 (rule.left < 0 || shifted - j <= rule.left) &&
                                 (rule.right < 0 || j - shifted <= rule.right);
            ASSERT_EQ(range.begin <= j && j < range.end, visible)
                << "queries " << queries << " keys " << keys << " i " << i << " j " << j << " left "
                << rule.left << " right " << rule.right << " causal " << rule.causal;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace headwise::kernels
