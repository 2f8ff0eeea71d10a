// Parallel text as the trainer takes it: read, refused when unfit, encoded, identified.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/config/config.h"
#include "src/data/batcher.h"
#include "src/data/drop_rule.h"
#include "src/data/subword.h"

namespace headwise::data {

/// What a checkpoint remembers of its training text, to notice another one on resume.
struct CorpusIdentity {
  int64_t lines = 0;   // of each side, blank ones included
  int64_t bytes = 0;   // of both sides, decompressed
  std::string sha256;  // of source then target: `cat SOURCE TARGET | sha256sum`
  bool operator==(const CorpusIdentity&) const = default;
};

/// Pairs with text on both sides.
struct ParallelText {
  std::vector<std::string> source, target;
  std::vector<int64_t> lines;  // 1-based line number of each pair in the files
  int64_t dropped_empty = 0;   // pairs left out because a side was blank
  CorpusIdentity identity;
  int64_t size() const { return static_cast<int64_t>(source.size()); }
};

/// data.root put before a relative path.
std::filesystem::path resolve_path(const config::DataConfig& data, const std::string& path);

/// Reads two files line by line together and leaves out pairs with a blank side.
/// @throws UserError with the findings that `headwise check` calls fatal.
ParallelText load_parallel(const std::filesystem::path& source,
                           const std::filesystem::path& target);

/// The same from text in memory; `name` stands for it in messages. The identity is that of the
/// lines written with LF ends.
ParallelText make_parallel(std::vector<std::string> source, std::vector<std::string> target,
                           const std::string& name);

struct Encoded {
  EncodedCorpus corpus;
  DropCounts dropped;  // those of the ParallelText included
};

/// @throws UserError if no pair is left.
Encoded encode(const ParallelText& text, const Vocabularies& vocabularies,
               const LengthLimits& limits);

/// The models that [subword] asks for: read from its files, or trained on the text.
Vocabularies make_vocabularies(const config::SubwordConfig& options, const ParallelText& text);

}  // namespace headwise::data
