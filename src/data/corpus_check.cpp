#include "src/data/corpus_check.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "src/config/error.h"
#include "src/data/unicode.h"

namespace headwise::data {
namespace {

constexpr int64_t kByteOrderMarkBytes = 3;

/// Looks at each character of a line; returns how many there are.
int64_t scan_characters(std::string_view line, const Place& start, FileReport& report) {
  int64_t count = 0;
  for (int64_t offset = 0; offset < static_cast<int64_t>(line.size()); ++count) {
    const int64_t byte = start.byte + offset;
    const int32_t character = next_character(line, offset);
    Finding* finding = nullptr;
    if (character < 0) finding = &report.invalid_utf8;
    if (character == 0) finding = &report.nul;
    if (character == '\r') finding = &report.carriage_return;
    if (character == '\v') finding = &report.vertical_tab;
    if (character == '\f') finding = &report.form_feed;
    if (character == 0x85) finding = &report.next_line;
    if (character == 0x2028) finding = &report.line_separator;
    if (character == 0x2029) finding = &report.paragraph_separator;
    if (finding != nullptr) finding->add(start.line, byte);
  }
  return count;
}

std::vector<int64_t> character_counts(const TextFile& text) {
  std::vector<int64_t> counts;
  for (const std::string& line : text.lines) counts.push_back(count_characters(line));
  return counts;
}

/// Everything that needs both lines of each pair; the files have equally many.
void check_equal_lines(const TextFile& source, const TextFile& target, const CheckOptions& options,
                       PairReport& report) {
  std::vector<int64_t> lines, source_lengths, target_lengths;
  std::unordered_set<std::string> seen;
  for (size_t i = 0; i < source.lines.size(); ++i) {
    const std::string &a = source.lines[i], &b = target.lines[i];
    const auto line = static_cast<int64_t>(i) + 1;
    Drop drop = is_blank(a) || is_blank(b) ? Drop::kEmpty : Drop::kNo;
    if (drop == Drop::kNo) {
      lines.push_back(line);
      source_lengths.push_back(count_characters(a));
      target_lengths.push_back(count_characters(b));
      if (a == b) report.copied.add(line);
      std::string both = a;
      both.append(1, '\n').append(b);
      if (!seen.insert(std::move(both)).second) report.duplicate.add(line);
      if (options.subword != nullptr) {
        drop = drop_reason(options.subword->source.encode(a), options.subword->target.encode(b),
                           options.limits);
      }
    }
    report.dropped.count(drop);
    if (drop == Drop::kNo) ++report.usable;
  }
  report.ratios = length_ratios(source_lengths, target_lengths);
  for (size_t i = 0; i < lines.size(); ++i) {
    if (is_extreme(source_lengths[i], target_lengths[i], report.ratios)) {
      report.extreme_ratio.add(lines[i]);
    }
  }
}

std::string first_place(const Finding& finding) {
  return text_of(finding.count == 1 ? "in line " : "the first in line ", finding.first[0].line,
                 " at byte ", finding.first[0].byte);
}

std::string unequal_counts(const CorpusReport& report) {
  const bool source_longer = report.source.lines > report.target.lines;
  const FileReport& longer = source_longer ? report.source : report.target;
  const FileReport& shorter = source_longer ? report.target : report.source;
  std::string message = text_of(report.source.path, " has ", report.source.lines, " lines but ",
                                report.target.path, " has ", report.target.lines);
  const int64_t surplus = longer.lines - shorter.lines, line = *report.pair.surplus_line;
  const std::string lines = surplus == 1 ? "1 line" : text_of(surplus, " lines");
  if (line > shorter.lines) {
    message += text_of("; judged by line lengths ", shorter.path, " ends ", lines, " early");
  } else {
    message += text_of("; judged by line lengths ", lines, " too many begin at line ", line, " of ",
                       longer.path);
  }
  if (report.pair.one_side_blank.count > 0) {
    message += text_of("; line ", report.pair.one_side_blank.first[0].line,
                       " is the first that is empty on one side only");
  }
  return message;
}

void fatal_in_file(const FileReport& report, std::vector<std::string>& messages) {
  if (report.lines == 0) messages.push_back(text_of(report.path, " is empty"));
  if (report.invalid_utf8.count > 0) {
    messages.push_back(text_of(report.path, " is not valid UTF-8 in ", report.invalid_utf8.count,
                               " place(s), ", first_place(report.invalid_utf8)));
  }
  if (report.nul.count > 0) {
    messages.push_back(
        text_of(report.path, " has ", report.nul.count, " NUL byte(s), ", first_place(report.nul)));
  }
}

}  // namespace

std::vector<NamedFinding> findings(const FileReport& report) {
  return {
      {"blank", "empty lines", &report.blank},
      {"too_many_characters", "lines with too many characters", &report.too_many_characters},
      {"too_many_pieces", "lines with too many pieces", &report.too_many_pieces, true},
      {"invalid_utf8", "invalid UTF-8 sequences", &report.invalid_utf8},
      {"nul", "NUL bytes", &report.nul},
      {"carriage_return", "carriage returns inside a line", &report.carriage_return},
      {"vertical_tab", "vertical tabs", &report.vertical_tab},
      {"form_feed", "form feeds", &report.form_feed},
      {"next_line", "next-line characters (U+0085)", &report.next_line},
      {"line_separator", "line separators (U+2028)", &report.line_separator},
      {"paragraph_separator", "paragraph separators (U+2029)", &report.paragraph_separator},
      {"duplicate", "lines that repeat an earlier one", &report.duplicate},
      {"unknown_pieces", "lines with unknown pieces", &report.unknown_pieces, true},
  };
}

FileReport check_file(const std::string& path, const TextFile& text, const CheckOptions& options,
                      const Subword* model) {
  FileReport report;
  report.path = path;
  report.gzip = text.gzip;
  report.byte_order_mark = text.byte_order_mark;
  report.ends_with_newline = text.ends_with_newline;
  report.lines = static_cast<int64_t>(text.lines.size());
  report.bytes = text.bytes;
  report.crlf_line_ends = text.carriage_returns;
  std::unordered_set<std::string_view> seen;
  for (int64_t i = 0; i < report.lines; ++i) {
    const std::string& line = text.lines[i];
    const Place start{i + 1, 1 + (i == 0 && text.byte_order_mark ? kByteOrderMarkBytes : 0)};
    const int64_t characters = scan_characters(line, start, report);
    report.characters += characters;
    report.longest = std::max(report.longest, characters);
    if (characters > options.max_characters) report.too_many_characters.add(start.line);
    if (is_blank(line)) {
      report.blank.add(start.line);
    } else if (!seen.insert(line).second) {
      report.duplicate.add(start.line);
    }
    if (model == nullptr) continue;
    const Ids ids = model->encode(line);
    const auto pieces = static_cast<int64_t>(ids.size());
    report.pieces += pieces;
    if (pieces + 1 > options.limits.max_length) report.too_many_pieces.add(start.line);
    if (std::count(ids.begin(), ids.end(), model->unk()) > 0) report.unknown_pieces.add(start.line);
  }
  return report;
}

PairReport check_pair(const TextFile& source, const TextFile& target, const CheckOptions& options) {
  PairReport report;
  report.source_lines = static_cast<int64_t>(source.lines.size());
  report.target_lines = static_cast<int64_t>(target.lines.size());
  const int64_t both = std::min(report.source_lines, report.target_lines);
  for (int64_t i = 0; i < both; ++i) {
    if (is_blank(source.lines[i]) != is_blank(target.lines[i])) report.one_side_blank.add(i + 1);
  }
  if (report.source_lines == report.target_lines) {
    check_equal_lines(source, target, options, report);
  } else {
    const bool source_longer = report.source_lines > report.target_lines;
    report.surplus_line = surplus_line(character_counts(source_longer ? source : target),
                                       character_counts(source_longer ? target : source));
  }
  return report;
}

CorpusReport check_corpus(const NamedText& source, const NamedText& target,
                          const CheckOptions& options) {
  const Vocabularies* subword = options.subword;
  return {check_file(source.path, source.text, options, subword ? &subword->source : nullptr),
          check_file(target.path, target.text, options, subword ? &subword->target : nullptr),
          check_pair(source.text, target.text, options)};
}

std::vector<std::string> fatal(const CorpusReport& report) {
  std::vector<std::string> messages;
  fatal_in_file(report.source, messages);
  fatal_in_file(report.target, messages);
  if (report.source.lines != report.target.lines) {
    messages.push_back(unequal_counts(report));
  } else if (report.pair.usable == 0 && report.source.lines > 0) {
    const DropCounts& dropped = report.pair.dropped;
    messages.push_back(text_of("no pair of ", report.source.path, " and ", report.target.path,
                               " can be used: of ", report.source.lines, ", ", dropped.empty,
                               " have an empty side, ", dropped.too_long, " are too long, ",
                               dropped.length_ratio, " differ too much in length"));
  }
  return messages;
}

}  // namespace headwise::data
