#include "src/cli/check_report.h"

#include <nlohmann/json.hpp>

#include "src/config/error.h"
#include "src/log/log.h"

namespace headwise::cli {
namespace {

using nlohmann::ordered_json;

/// "lines 3, 9", "line 4 at byte 7, line 9 at byte 1"; " …" when there are more.
std::string places(const data::Finding& finding) {
  const bool whole_lines = finding.first[0].byte == 0;
  std::string text = !whole_lines ? "" : finding.count == 1 ? "line " : "lines ";
  const char* comma = "";
  for (const data::Place& place : finding.first) {
    text += whole_lines ? text_of(comma, place.line)
                        : text_of(comma, "line ", place.line, " at byte ", place.byte);
    comma = ", ";
  }
  return text + (finding.count > static_cast<int64_t>(finding.first.size()) ? " …" : "");
}

std::string finding_line(const char* words, const data::Finding& finding) {
  if (finding.count == 0) return "";
  return text_of("  ", words, ": ", finding.count, " (", places(finding), ")\n");
}

std::string text_of_file(const data::FileReport& file) {
  std::string text = text_of(file.path, ": lines ", file.lines, ", characters ", file.characters,
                             " (longest line ", file.longest, "), bytes ", file.bytes,
                             file.gzip ? " unpacked from gzip" : "", "\n");
  if (file.byte_order_mark) text += "  begins with a byte-order mark (not part of the text)\n";
  if (file.crlf_line_ends > 0) {
    text += text_of("  lines that end with CR LF, read like LF: ", file.crlf_line_ends, "\n");
  }
  if (!file.ends_with_newline) text += "  the last line has no line feed (read all the same)\n";
  for (const data::NamedFinding& named : data::findings(file)) {
    text += finding_line(named.words, *named.finding);
  }
  if (file.pieces > 0) text += text_of("  pieces: ", file.pieces, "\n");
  return text;
}

std::string text_of_dropped(const CheckedCorpus& corpus) {
  const data::PairReport& pair = corpus.report.pair;
  const data::DropCounts& dropped = pair.dropped;
  std::string text = text_of("pairs: ", pair.source_lines, "; training uses ", pair.usable,
                             " and drops ", dropped.total());
  if (dropped.total() > 0) text += text_of(": ", dropped.empty, " with an empty side");
  if (!corpus.pieces) return text + " (lengths not counted: no subword model)\n";
  if (dropped.total() == 0) return text + "\n";
  text += text_of(", ", dropped.too_long, " longer than ", corpus.limits.max_length, " pieces");
  if (corpus.limits.max_length_ratio > 0) {
    text += text_of(", ", dropped.length_ratio, " beyond the length ratio ",
                    corpus.limits.max_length_ratio);
  }
  return text + "\n";
}

std::string text_of_pairs(const CheckedCorpus& corpus) {
  const data::PairReport& pair = corpus.report.pair;
  std::string text;
  if (pair.source_lines == pair.target_lines) {
    const data::LengthRatios& ratios = pair.ratios;
    text += text_of_dropped(corpus);
    text += text_of("  target characters per source character: least ", log::fixed(ratios.least, 2),
                    ", 1 % ", log::fixed(ratios.percent1, 2), ", median ",
                    log::fixed(ratios.median, 2), ", 99 % ", log::fixed(ratios.percent99, 2),
                    ", greatest ", log::fixed(ratios.greatest, 2), "\n");
  }
  text += finding_line("lines that are empty on one side only", pair.one_side_blank);
  text += finding_line("pairs of very unequal length", pair.extreme_ratio);
  text += finding_line("pairs that repeat an earlier one", pair.duplicate);
  text += finding_line("pairs whose sides are the same text", pair.copied);
  return text;
}

ordered_json json_of(const data::Finding& finding) {
  ordered_json places = ordered_json::array();
  for (const data::Place& place : finding.first) {
    ordered_json entry = {{"line", place.line}};
    if (place.byte > 0) entry["byte"] = place.byte;
    places.push_back(entry);
  }
  return {{"count", finding.count}, {"first", places}};
}

ordered_json json_of(const data::FileReport& file, bool pieces) {
  ordered_json json = {{"path", file.path},
                       {"lines", file.lines},
                       {"bytes", file.bytes},
                       {"characters", file.characters},
                       {"longest", file.longest},
                       {"gzip", file.gzip},
                       {"byte_order_mark", file.byte_order_mark},
                       {"ends_with_newline", file.ends_with_newline},
                       {"crlf_line_ends", file.crlf_line_ends}};
  if (pieces) json["pieces"] = file.pieces;
  for (const data::NamedFinding& named : data::findings(file)) {
    if (pieces || !named.needs_model) json[named.key] = json_of(*named.finding);
  }
  return json;
}

ordered_json json_of(const data::PairReport& pair, bool pieces) {
  ordered_json json = {{"source_lines", pair.source_lines},
                       {"target_lines", pair.target_lines},
                       {"one_side_blank", json_of(pair.one_side_blank)}};
  if (pair.surplus_line) {
    json["surplus_line"] = *pair.surplus_line;
    return json;
  }
  json["length_ratio"] = {{"least", pair.ratios.least},
                          {"percent1", pair.ratios.percent1},
                          {"median", pair.ratios.median},
                          {"percent99", pair.ratios.percent99},
                          {"greatest", pair.ratios.greatest}};
  json["extreme_ratio"] = json_of(pair.extreme_ratio);
  json["duplicate"] = json_of(pair.duplicate);
  json["copied"] = json_of(pair.copied);
  json["usable"] = pair.usable;
  json["dropped"] = {{"empty", pair.dropped.empty}};
  if (pieces) {
    json["dropped"]["too_long"] = pair.dropped.too_long;
    json["dropped"]["length_ratio"] = pair.dropped.length_ratio;
  }
  return json;
}

}  // namespace

std::string text_of_check(const CheckedCorpus& corpus) {
  std::string text = corpus.name.empty() ? "" : text_of("== ", corpus.name, " text ==\n");
  text += text_of_file(corpus.report.source) + text_of_file(corpus.report.target);
  text += text_of_pairs(corpus);
  for (const std::string& message : corpus.fatal) text += text_of("FATAL: ", message, "\n");
  if (corpus.fatal.empty()) text += "fit for training\n";
  return text;
}

ordered_json json_of_check(const CheckedCorpus& corpus) {
  return {{"name", corpus.name},
          {"source", json_of(corpus.report.source, corpus.pieces)},
          {"target", json_of(corpus.report.target, corpus.pieces)},
          {"pairs", json_of(corpus.report.pair, corpus.pieces)},
          {"fatal", corpus.fatal}};
}

}  // namespace headwise::cli
