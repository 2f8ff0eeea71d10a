#include "src/data/corpus.h"

#include <utility>

#include "src/config/error.h"
#include "src/data/corpus_check.h"
#include "src/data/sha256.h"
#include "src/data/text_file.h"
#include "src/data/unicode.h"

namespace headwise::data {
namespace {

/// Moves the pairs whose sides both show text; the others are counted.
ParallelText keep_visible(std::vector<std::string> source, std::vector<std::string> target) {
  ParallelText text;
  text.identity.lines = static_cast<int64_t>(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (is_blank(source[i]) || is_blank(target[i])) {
      ++text.dropped_empty;
      continue;
    }
    text.source.push_back(std::move(source[i]));
    text.target.push_back(std::move(target[i]));
    text.lines.push_back(static_cast<int64_t>(i) + 1);
  }
  return text;
}

void refuse_fatal(const CorpusReport& report, const std::string& advice) {
  const auto messages = fatal(report);
  if (messages.empty()) return;
  std::string all;
  for (const std::string& message : messages) all += (all.empty() ? "" : "; ") + message;
  throw UserError(all + advice);
}

}  // namespace

std::filesystem::path resolve_path(const config::DataConfig& data, const std::string& path) {
  return std::filesystem::path(data.root) / path;  // an absolute `path` replaces the root
}

ParallelText load_parallel(const std::filesystem::path& source,
                           const std::filesystem::path& target) {
  Sha256 digest;
  TextFile source_text = read_lines(source, &digest);
  TextFile target_text = read_lines(target, &digest);
  const std::string source_name = source.string(), target_name = target.string();
  refuse_fatal(check_corpus({source_name, source_text}, {target_name, target_text}, {}),
               text_of(" (all findings: headwise check ", source_name, " ", target_name, ")"));
  ParallelText text = keep_visible(std::move(source_text.lines), std::move(target_text.lines));
  text.identity.bytes = source_text.bytes + target_text.bytes;
  text.identity.sha256 = digest.hex();
  return text;
}

ParallelText make_parallel(std::vector<std::string> source, std::vector<std::string> target,
                           const std::string& name) {
  if (source.size() != target.size() || source.empty()) {
    throw UserError(text_of(name, ": ", source.size(), " source and ", target.size(),
                            " target lines; equally many and at least one are needed"));
  }
  Sha256 digest;
  int64_t bytes = 0;
  for (const auto* side : {&source, &target}) {
    for (const std::string& line : *side) {
      digest.update(line);
      digest.update("\n");
      bytes += static_cast<int64_t>(line.size()) + 1;
    }
  }
  ParallelText text = keep_visible(std::move(source), std::move(target));
  text.identity.bytes = bytes;
  text.identity.sha256 = digest.hex();
  return text;
}

Encoded encode(const ParallelText& text, const Vocabularies& vocabularies,
               const LengthLimits& limits) {
  Encoded encoded;
  encoded.dropped.empty = text.dropped_empty;
  for (int64_t i = 0; i < text.size(); ++i) {
    Ids source = vocabularies.source.encode(text.source[i]);
    Ids target = vocabularies.target.encode(text.target[i]);
    const Drop drop = drop_reason(source, target, limits);
    encoded.dropped.count(drop);
    if (drop != Drop::kNo) continue;
    encoded.corpus.source.push_back(std::move(source));
    encoded.corpus.target.push_back(std::move(target));
    encoded.corpus.lines.push_back(text.lines[i]);
  }
  if (encoded.corpus.size() == 0) {
    const DropCounts& dropped = encoded.dropped;
    throw UserError(text_of("no sentence pair is left: of ", dropped.total(), ", ", dropped.empty,
                            " have an empty side, ", dropped.too_long,
                            " are longer than data.max_length = ", limits.max_length, " pieces, ",
                            dropped.length_ratio,
                            " exceed data.max_length_ratio = ", limits.max_length_ratio));
  }
  return encoded;
}

Vocabularies make_vocabularies(const config::SubwordConfig& options, const ParallelText& text) {
  const auto from_file = [&](const std::string& path) {
    return Subword::from_file(path, options.trust_model);
  };
  if (options.joint) {
    const Subword model = options.model.empty()
                              ? Subword::train({&text.source, &text.target}, options)
                              : from_file(options.model);
    return {model, model, true};
  }
  const auto side = [&](const std::string& path, const std::vector<std::string>& lines) {
    return path.empty() ? Subword::train({&lines}, options) : from_file(path);
  };
  return {side(options.source_model, text.source), side(options.target_model, text.target), false};
}

}  // namespace headwise::data
