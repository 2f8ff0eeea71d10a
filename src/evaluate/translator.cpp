#include "src/evaluate/translator.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <utility>

#include "src/config/error.h"
#include "src/data/unicode.h"
#include "src/evaluate/decoding_step.h"
#include "src/evaluate/line_parts.h"

namespace headwise::evaluate {
namespace {

SourceTokens join(const std::vector<data::Ids>& sources, int32_t eos) {
  SourceTokens joined;
  for (const data::Ids& ids : sources) {
    joined.tokens.insert(joined.tokens.end(), ids.begin(), ids.end());
    joined.tokens.push_back(eos);
    joined.starts.push_back(int64_t(joined.tokens.size()));
  }
  return joined;
}

/// Adds a part's outputs to its line's: texts joined by a space, scores summed, n-best rank by
/// rank.
void append(TranslatedLine& line, const std::vector<Translation>& part) {
  if (line.nbest.empty()) {
    line.nbest = part;
    return;
  }
  ++line.parts;
  line.nbest.resize(std::min(line.nbest.size(), part.size()));
  for (size_t i = 0; i < line.nbest.size(); ++i) {
    Translation& whole = line.nbest[i];
    const bool both = !whole.text.empty() && !part[i].text.empty();
    whole.text += (both ? " " : "") + part[i].text;
    whole.log_probability += part[i].log_probability;
    whole.score += part[i].score;
    whole.finished = whole.finished && part[i].finished;
  }
}

}  // namespace

Translator::Translator(std::unique_ptr<PackedTransformer> model, data::Vocabularies vocabularies,
                       TranslateOptions options)
    : model_(std::move(model)),
      vocabularies_(std::move(vocabularies)),
      options_(std::move(options)) {
  if (!options_.prefix.empty()) prefix_ = vocabularies_.target.encode(options_.prefix);
}

std::vector<Translator::Part> Translator::cut_into_parts(const std::vector<std::string>& lines,
                                                         int64_t first_line) const {
  const int64_t limit = options_.max_length - 1;  // room for the end token
  std::vector<Part> parts;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (data::is_blank(lines[i])) continue;
    std::vector<data::Ids> pieces = parts_of(lines[i], vocabularies_.source, limit);
    if (pieces.size() > 1 && options_.decoding.long_lines == config::LongLines::kRefuse) {
      throw UserError(text_of("line ", first_line + int64_t(i), ": longer than the ", limit,
                              " pieces this model takes; shorten it, or use --long-lines split"));
    }
    if (pieces.front().empty()) continue;
    for (size_t k = 0; k < pieces.size(); ++k) parts.push_back({i, std::move(pieces[k]), k == 0});
  }
  return parts;
}

std::vector<TranslatedLine> Translator::translate(const std::vector<std::string>& lines,
                                                  const SafePoint& safe_point, int64_t first_line) {
  const std::vector<Part> parts = cut_into_parts(lines, first_line);
  std::vector<size_t> order(parts.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return parts[a].ids.size() > parts[b].ids.size();  // longest first: memory peaks at once
  });

  std::vector<std::vector<Translation>> outputs(parts.size());
  const auto translate_batch = [&](const std::vector<size_t>& batch) {
    std::vector<data::Ids> sources;
    std::vector<decode::SearchRequest> requests;
    for (const size_t i : batch) {
      sources.push_back(parts[i].ids);
      requests.push_back(request_for(parts[i]));
    }
    const auto found = search_batch(sources, requests, safe_point);
    for (size_t i = 0; i < batch.size(); ++i) {
      for (const decode::Hypothesis& hypothesis : found[i]) {
        outputs[batch[i]].push_back({vocabularies_.target.decode(hypothesis.ids),
                                     hypothesis.log_probability, hypothesis.score,
                                     hypothesis.finished});
      }
    }
  };
  side_by_side(batches_of(parts, order), translate_batch);

  std::vector<TranslatedLine> results(lines.size());
  for (size_t i = 0; i < parts.size(); ++i) append(results[parts[i].line], outputs[i]);
  for (TranslatedLine& line : results) {
    if (line.nbest.empty()) line.nbest.emplace_back();  // empty line in, empty line out
  }
  return results;
}

std::vector<std::vector<size_t>> Translator::batches_of(const std::vector<Part>& parts,
                                                        const std::vector<size_t>& order) const {
  std::vector<std::vector<size_t>> batches;
  int64_t tokens = 0;
  for (const size_t i : order) {
    const int64_t own = int64_t(parts[i].ids.size()) + 1;
    if (batches.empty() || tokens + own > options_.decoding.batch_tokens) {
      batches.emplace_back();
      tokens = 0;
    }
    batches.back().push_back(i);
    tokens += own;
  }
  return batches;
}

void Translator::side_by_side(const std::vector<std::vector<size_t>>& batches,
                              const std::function<void(const std::vector<size_t>&)>& translate) {
  // Whoever is free takes the next batch. With one batch its operations have all threads.
  std::atomic<size_t> next = 0;
  const int64_t workers = std::min<int64_t>(at::get_num_threads(), int64_t(batches.size()));
  at::parallel_for(0, workers, 1, [&](int64_t, int64_t) {
    for (size_t i = next++; i < batches.size(); i = next++) translate(batches[i]);
  });
}

decode::SearchRequest Translator::request_for(const Part& part) const {
  const config::TranslateConfig& decoding = options_.decoding;
  // A factor has no upper bound in the configuration; the search will run out of memory first.
  const double most = std::min(decoding.max_length_factor * double(part.ids.size()), 1e9);
  return {int64_t(std::floor(most)) + decoding.max_length_extra,
          part.begins_line ? prefix_ : data::Ids{}};
}

std::vector<std::vector<decode::Hypothesis>> Translator::search_batch(
    const std::vector<data::Ids>& sources, const std::vector<decode::SearchRequest>& requests,
    const SafePoint& safe_point) {
  decode::SearchOptions search;
  search.beam = options_.decoding.beam;
  search.length_penalty = options_.decoding.length_penalty;
  search.nbest = options_.nbest;
  search.stop_after = options_.decoding.stop_after;
  search.bos = vocabularies_.target.bos();
  search.eos = vocabularies_.target.eos();
  search.forbidden = {vocabularies_.target.pad(), vocabularies_.target.bos(),
                      vocabularies_.target.unk()};
  int64_t capacity = 1;
  for (const decode::SearchRequest& request : requests) {
    capacity = std::max(capacity, request.max_length + int64_t(request.prefix.size()));
  }
  const int64_t rows = int64_t(sources.size()) * search.beam;
  const std::unique_ptr<Decoding> decoding =
      model_->start(join(sources, vocabularies_.source.eos()), rows, capacity);
  const decode::StepFunction step = step_of(*decoding, *model_, search.eos);
  const auto interruptible = [&](const decode::StepRows& asked, decode::StepPicks& picks) {
    safe_point();
    step(asked, picks);
  };
  return decode::search(interruptible, requests, search);
}

}  // namespace headwise::evaluate
