#include "src/train/micro_batches.h"

#include <gtest/gtest.h>

#include <set>

namespace headwise::train {
namespace {

data::Batch batch_of(const std::vector<int64_t>& lines, int64_t source, int64_t target) {
  data::Batch batch;
  batch.lines = lines;
  batch.source.longest = source;
  batch.target.longest = target;
  return batch;
}

TEST(MicroBatches, LinesAreListedUpToFive) {
  EXPECT_EQ(lines_of({batch_of({17}, 1, 1)}), "lines 17");
  EXPECT_EQ(lines_of({batch_of({17, 4}, 1, 1), batch_of({203, 1, 9}, 1, 1)}),
            "lines 17, 4, 203, 1, 9");
  EXPECT_EQ(lines_of({batch_of({17, 4, 3}, 1, 1), batch_of({203, 1, 9, 8}, 1, 1)}),
            "lines 17, 4, 3, 203, 1 and 2 more");
}

TEST(MicroBatches, PaddingCountsTheLongestOfBothSides) {
  EXPECT_EQ(padded_positions(batch_of({1, 2, 3}, 10, 7)), 51);
}

TEST(MicroBatches, SeedsOfNeighbouringRunsBatchesAndShardsDiffer) {
  std::set<uint64_t> seeds;
  for (int64_t run = 0; run < 50; ++run) {
    for (int64_t batch = 0; batch < 200; ++batch) {
      for (int64_t shard = 0; shard < 8; ++shard) seeds.insert(shard_seed(run, batch, shard));
    }
  }
  EXPECT_EQ(seeds.size(), 50u * 200u * 8u);
}

}  // namespace
}  // namespace headwise::train
