#include "src/data/batcher.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "src/config/error.h"
#include "src/data/splitmix64.h"

namespace headwise::data {
namespace {

// Pairs sorted by length together. A constant, not a number of batches: whatever the batch size,
// the same pairs lie in the same window, so a position at a window's end means the same to all
// sizes.
constexpr int64_t kWindow = 8192;
// A batch of short targets must not drag in endless sources; twice the labels is rarely reached.
constexpr int64_t kSourceTokensPerLabel = 2;

using Indices = std::vector<int64_t>;

int64_t source_tokens(const EncodedCorpus& corpus, int64_t pair) {
  return static_cast<int64_t>(corpus.source[pair].size()) + 1;
}

int64_t labels(const EncodedCorpus& corpus, int64_t pair) {
  return static_cast<int64_t>(corpus.target[pair].size()) + 1;
}

/// Sorts by length (target, then source; equal ones keep their order) and cuts where a further pair
/// would pass the budget of labels or of source tokens.
std::vector<Indices> batches_by_length(const EncodedCorpus& corpus, Indices pairs,
                                       int64_t batch_tokens) {
  std::stable_sort(pairs.begin(), pairs.end(), [&](int64_t a, int64_t b) {
    return std::make_pair(labels(corpus, a), source_tokens(corpus, a)) <
           std::make_pair(labels(corpus, b), source_tokens(corpus, b));
  });
  std::vector<Indices> batches;
  int64_t batch_labels = 0, batch_source = 0;
  for (const int64_t pair : pairs) {
    batch_labels += labels(corpus, pair);
    batch_source += source_tokens(corpus, pair);
    if (batches.empty() || batch_labels > batch_tokens ||
        batch_source > kSourceTokensPerLabel * batch_tokens) {
      batches.emplace_back();
      batch_labels = labels(corpus, pair);
      batch_source = source_tokens(corpus, pair);
    }
    batches.back().push_back(pair);
  }
  return batches;
}

void append(Packed& packed, int64_t first, const Ids& ids, int64_t last) {
  const size_t begin = packed.tokens.size();
  if (first >= 0) packed.tokens.push_back(first);
  packed.tokens.insert(packed.tokens.end(), ids.begin(), ids.end());
  if (last >= 0) packed.tokens.push_back(last);
  const auto length = static_cast<int64_t>(packed.tokens.size() - begin);
  for (int64_t i = 0; i < length; ++i) packed.positions.push_back(i);
  packed.starts.push_back(static_cast<int32_t>(packed.tokens.size()));
  packed.longest = std::max(packed.longest, length);
}

void require_pairs(const EncodedCorpus& corpus) {
  if (corpus.size() == 0) throw std::invalid_argument("Batcher: the corpus is empty");
  if (corpus.target.size() != corpus.source.size() || corpus.lines.size() != corpus.source.size()) {
    throw std::invalid_argument(text_of("Batcher: ", corpus.source.size(), " sources, ",
                                        corpus.target.size(), " targets and ", corpus.lines.size(),
                                        " line numbers must be equally many"));
  }
}

}  // namespace

Batcher::Batcher(PairsOfEpoch pairs, const BatcherOptions& options, const DataPosition& start)
    : pairs_(std::move(pairs)), options_(options) {
  if (options.batch_tokens < 1) {
    throw std::invalid_argument(
        text_of("Batcher: batch_tokens = ", options.batch_tokens, " must be at least 1"));
  }
  seek(start);
}

Batcher::Batcher(const EncodedCorpus& corpus, const BatcherOptions& options)
    : Batcher([&corpus](int64_t) -> const EncodedCorpus& { return corpus; }, options) {}

void Batcher::order_epoch() {
  corpus_ = &pairs_(position_.epoch);
  require_pairs(*corpus_);
  Indices pairs(corpus_->size());
  std::iota(pairs.begin(), pairs.end(), 0);
  order_.clear();
  next_batch_ = 0;
  if (!options_.shuffle) {
    order_ = batches_by_length(*corpus_, std::move(pairs), options_.batch_tokens);
    return;
  }
  // The epoch's number picks a stream of its own: neighbouring seeds and epochs share no numbers.
  SplitMix64 seeds(options_.seed);
  SplitMix64 random(seeds.next() ^ SplitMix64(static_cast<uint64_t>(position_.epoch)).next());
  shuffle(pairs, random);
  const int64_t size = corpus_->size(),
                windows = std::max<int64_t>(1, (size + kWindow / 2) / kWindow);
  for (int64_t window = 0; window < windows; ++window) {
    const auto begin = pairs.begin() + size * window / windows;
    const auto end = pairs.begin() + size * (window + 1) / windows;
    auto batches = batches_by_length(*corpus_, Indices(begin, end), options_.batch_tokens);
    shuffle(batches, random);
    std::move(batches.begin(), batches.end(), std::back_inserter(order_));
  }
}

Batch Batcher::next() {
  Batch batch = pack(*corpus_, order_[next_batch_], options_);
  position_.sentence += batch.size();
  if (++next_batch_ == order_.size()) {
    position_ = {position_.epoch + 1, 0};
    order_epoch();
  }
  return batch;
}

void Batcher::seek(const DataPosition& position) {
  if (position.epoch < 0 || position.sentence < 0) {
    throw std::invalid_argument(text_of("Batcher: position (epoch ", position.epoch, ", sentence ",
                                        position.sentence, ") must not be negative"));
  }
  position_ = {position.epoch, 0};
  order_epoch();
  while (next_batch_ < order_.size() && position_.sentence < position.sentence) {
    position_.sentence += static_cast<int64_t>(order_[next_batch_++].size());
  }
  if (next_batch_ == order_.size()) {
    position_ = {position.epoch + 1, 0};
    order_epoch();
  }
}

Batcher::Largest Batcher::largest_batch() const {
  Largest largest;
  for (const Indices& batch : order_) {
    int64_t source = 0, target = 0;
    for (const int64_t pair : batch) {
      source += source_tokens(*corpus_, pair);
      target += labels(*corpus_, pair);
    }
    largest.source_tokens = std::max(largest.source_tokens, source);
    largest.target_tokens = std::max(largest.target_tokens, target);
    largest.pairs = std::max(largest.pairs, static_cast<int64_t>(batch.size()));
  }
  return largest;
}

int64_t Batcher::batches_in_epoch() const { return static_cast<int64_t>(order_.size()); }

Batch pack(const EncodedCorpus& corpus, const std::vector<int64_t>& indices,
           const BatcherOptions& options) {
  constexpr int64_t kNone = -1;
  Batch batch;
  batch.source.starts = batch.target.starts = {0};
  for (const int64_t pair : indices) {
    append(batch.source, kNone, corpus.source[pair], options.source_eos);
    append(batch.target, options.target_bos, corpus.target[pair], kNone);
    batch.labels.insert(batch.labels.end(), corpus.target[pair].begin(), corpus.target[pair].end());
    batch.labels.push_back(options.target_eos);
    batch.lines.push_back(corpus.lines[pair]);
  }
  return batch;
}

}  // namespace headwise::data
