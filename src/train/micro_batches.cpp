#include "src/train/micro_batches.h"

#include "src/config/error.h"
#include "src/data/splitmix64.h"

namespace headwise::train {

data::BatcherOptions batching_of(const config::TrainConfig& train,
                                 const data::Vocabularies& vocabularies) {
  data::BatcherOptions options;
  options.batch_tokens = train.batch_tokens;
  options.seed = uint64_t(train.seed);
  options.source_eos = vocabularies.source.eos();
  options.target_bos = vocabularies.target.bos();
  options.target_eos = vocabularies.target.eos();
  return options;
}

int64_t padded_positions(const data::Batch& batch) {
  return batch.size() * (batch.source.longest + batch.target.longest);
}

std::string lines_of(const std::vector<data::Batch>& batches) {
  constexpr size_t kShown = 5;
  std::string text = "lines ";
  size_t count = 0;
  for (const data::Batch& batch : batches) {
    for (const int64_t line : batch.lines) {
      if (count < kShown) text += (count > 0 ? ", " : "") + std::to_string(line);
      ++count;
    }
  }
  if (count > kShown) text += text_of(" and ", count - kShown, " more");
  return text;
}

uint64_t shard_seed(int64_t run_seed, int64_t micro_batch, int64_t shard) {
  return data::part_seed(uint64_t(run_seed), uint64_t(micro_batch), uint64_t(shard));
}

}  // namespace headwise::train
