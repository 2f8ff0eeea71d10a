#include "src/data/epoch_corpus.h"

#include <algorithm>
#include <utility>

#include "src/config/error.h"
#include "src/data/splitmix64.h"

namespace headwise::data {
namespace {

constexpr std::vector<Ids> EncodedCorpus::*kSource = &EncodedCorpus::source;
constexpr std::vector<Ids> EncodedCorpus::*kTarget = &EncodedCorpus::target;

/// Source and target have numbers of their own, so that the dropout of one leaves the other alone.
uint32_t sampling_seed(uint64_t run_seed, int64_t epoch, bool target) {
  return static_cast<uint32_t>(part_seed(run_seed, static_cast<uint64_t>(epoch), target) >> 32);
}

/// The lines of the pairs with these line numbers, both in ascending order.
std::vector<std::string> lines_of_pairs(std::vector<std::string> lines,
                                        const std::vector<int64_t>& numbers,
                                        const std::vector<int64_t>& kept) {
  std::vector<std::string> left;
  left.reserve(kept.size());
  auto number = numbers.begin();
  for (const int64_t line : kept) {
    number = std::find(number, numbers.end(), line);
    left.push_back(std::move(lines[static_cast<size_t>(number - numbers.begin())]));
  }
  return left;
}

void require_bpe(const Subword& model, const char* key, double dropout) {
  const std::string kind = model.kind();
  if (kind == "bpe") return;
  throw UserError(text_of(key, " = ", dropout, ": found a subword model of type ", kind,
                          "; needed one of type bpe, whose merges can be left out, or ", key,
                          " = 0"));
}

}  // namespace

EpochCorpus::EpochCorpus(EncodedCorpus usual, ParallelText text, const Vocabularies& vocabularies,
                         const config::Config& config)
    : corpus_(std::move(usual)),
      max_length_(config.data.max_length),
      seed_(static_cast<uint64_t>(config.train.seed)) {
  const config::SubwordConfig& subword = config.subword;
  if (subword.source_dropout > 0) {
    require_bpe(vocabularies.source, "subword.source_dropout", subword.source_dropout);
    sampled_.push_back({kSource, vocabularies.source, subword.source_dropout,
                        lines_of_pairs(std::move(text.source), text.lines, corpus_.lines)});
  }
  if (subword.target_dropout > 0) {
    require_bpe(vocabularies.target, "subword.target_dropout", subword.target_dropout);
    sampled_.push_back({kTarget, vocabularies.target, subword.target_dropout,
                        lines_of_pairs(std::move(text.target), text.lines, corpus_.lines)});
  }
}

const EncodedCorpus& EpochCorpus::of_epoch(int64_t epoch) {
  for (const Sampled& sampled : sampled_) sample(sampled, epoch);
  return corpus_;
}

void EpochCorpus::sample(const Sampled& sampled, int64_t epoch) {
  std::vector<Ids>& side = corpus_.*sampled.side;
  side = sampled.model.sample(sampled.lines, sampled.dropout,
                              sampling_seed(seed_, epoch, sampled.side == kTarget));
  for (size_t i = 0; i < side.size(); ++i) {
    const auto length = static_cast<int64_t>(side[i].size()) + 1;
    if (length > max_length_) side[i] = sampled.model.encode(sampled.lines[i]);
  }
}

}  // namespace headwise::data
