// What is odd about a parallel corpus, and what of it forbids training. Pure functions of the text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "src/data/drop_rule.h"
#include "src/data/length_ratios.h"
#include "src/data/subword.h"
#include "src/data/text_file.h"

namespace headwise::data {

/// 1-based; `byte` counts inside the line as it lies in the (decompressed) file, 0 = the whole
/// line.
struct Place {
  int64_t line = 0, byte = 0;
};

/// How often something was met and where first.
struct Finding {
  static constexpr size_t kPlaces = 5;
  int64_t count = 0;
  std::vector<Place> first;

  void add(int64_t line, int64_t byte = 0) {
    ++count;
    if (first.size() < kPlaces) first.push_back({line, byte});
  }
};

struct FileReport {
  std::string path;
  bool gzip = false, byte_order_mark = false, ends_with_newline = true;
  int64_t lines = 0, bytes = 0, characters = 0;
  int64_t longest = 0;         // characters of the longest line
  int64_t crlf_line_ends = 0;  // read like LF
  int64_t pieces = 0;          // 0 without a subword model
  Finding blank;               // empty, or nothing visible (is_blank)
  Finding too_many_characters, too_many_pieces;
  Finding invalid_utf8, nul;
  Finding carriage_return;  // inside a line
  Finding vertical_tab, form_feed, next_line, line_separator, paragraph_separator;
  Finding duplicate;       // equal to an earlier line that is not blank
  Finding unknown_pieces;  // lines; needs a subword model
};

/// A finding of a file with its key (JSON) and its words (text).
struct NamedFinding {
  const char* key;
  const char* words;
  const Finding* finding;
  bool needs_model = false;  // counts nothing without a subword model
};
std::vector<NamedFinding> findings(const FileReport& report);

struct PairReport {
  int64_t source_lines = 0, target_lines = 0;
  Finding one_side_blank;
  // Only for unequal line counts:
  std::optional<int64_t> surplus_line;  // of the longer file, see surplus_line()
  // Only for equal line counts:
  LengthRatios ratios;    // of pairs without a blank side
  Finding extreme_ratio;  // is_extreme
  Finding duplicate;      // both sides equal to those of an earlier pair
  Finding copied;         // source and target are the same text
  DropCounts dropped;     // lengths only with a subword model
  int64_t usable = 0;     // pairs that training would keep
};

struct CorpusReport {
  FileReport source, target;
  PairReport pair;
};

struct CheckOptions {
  int64_t max_characters = 2000;  // a longer line is reported
  LengthLimits limits;            // in pieces
  const Vocabularies* subword = nullptr;
};

FileReport check_file(const std::string& path, const TextFile& text, const CheckOptions& options,
                      const Subword* model);
PairReport check_pair(const TextFile& source, const TextFile& target, const CheckOptions& options);

/// Both files and the pair; the paths are only for the report.
struct NamedText {
  const std::string& path;
  const TextFile& text;
};
CorpusReport check_corpus(const NamedText& source, const NamedText& target,
                          const CheckOptions& options);

/// Why training refuses this corpus, one sentence each; empty if it does not. The one place that
/// decides: an empty file, unequal line counts, invalid UTF-8, NUL bytes, no usable pair.
std::vector<std::string> fatal(const CorpusReport& report);

}  // namespace headwise::data
