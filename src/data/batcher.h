// Token-budget batches in a seeded order whose position can be saved and found again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "src/data/batch.h"

namespace headwise::data {

/// Encoded sentence pairs of a corpus; ids without bos and eos.
struct EncodedCorpus {
  std::vector<Ids> source, target;
  std::vector<int64_t> lines;  // 1-based line number of each pair in its file
  int64_t size() const { return static_cast<int64_t>(source.size()); }
};

/// The pairs of an epoch, counted from 0: in each equally many with the same line numbers. What is
/// returned holds until the next call.
using PairsOfEpoch = std::function<const EncodedCorpus&(int64_t epoch)>;

struct BatcherOptions {
  int64_t batch_tokens = 2000;  // labels per batch (pieces + end), at least one pair per batch
  uint64_t seed = 1;
  bool shuffle = true;  // off: length-sorted, one fixed order (validation)
  int32_t source_eos = 3, target_bos = 2, target_eos = 3;
};

/// Where the next batch comes from. Kept in sentences, so that it survives another batch size.
struct DataPosition {
  int64_t epoch = 0;     // completed passes
  int64_t sentence = 0;  // pairs of this epoch's order already used
};

/// Length-aware batches: each epoch is a seeded shuffle of batches made from length-sorted windows
/// of a seeded shuffle of the pairs. A pure function of (pairs, options, epoch): no hidden state.
class Batcher {
 public:
  /// Begins where seek(start) goes on; asks for the pairs of no epoch before that.
  Batcher(PairsOfEpoch pairs, const BatcherOptions& options, const DataPosition& start = {});
  /// The same pairs in every epoch; `corpus` must outlive the batcher.
  Batcher(const EncodedCorpus& corpus, const BatcherOptions& options);
  /// The next batch; starts the next epoch when this one is used up.
  Batch next();
  DataPosition position() const { return position_; }
  /// Goes on with the first batch that starts at or after the position. With the options the
  /// position was saved under this is exact. With another batch_tokens the finished windows stay
  /// used and only pairs of the current window may come twice or not at all in this epoch.
  void seek(const DataPosition& position);
  /// The most source tokens, target tokens and pairs that any batch of the current epoch holds.
  struct Largest {
    int64_t source_tokens = 0, target_tokens = 0, pairs = 0;
  };
  Largest largest_batch() const;
  /// Batches of the current epoch.
  int64_t batches_in_epoch() const;

 private:
  void order_epoch();

  PairsOfEpoch pairs_;
  const EncodedCorpus* corpus_ = nullptr;  // of this epoch
  BatcherOptions options_;
  DataPosition position_;
  std::vector<std::vector<int64_t>> order_;  // pair indices of each batch of this epoch
  size_t next_batch_ = 0;
};

/// The pairs `indices` of the corpus as one packed batch.
Batch pack(const EncodedCorpus& corpus, const std::vector<int64_t>& indices,
           const BatcherOptions& options);

}  // namespace headwise::data
