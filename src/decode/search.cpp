#include "src/decode/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

#include "src/decode/sentence_beam.h"

namespace headwise::decode {

namespace {

constexpr double kLargest = 1e-2;  // rounded sums may end a little above 0

void require(bool condition, const std::string& message) {
  if (!condition) throw std::invalid_argument("search: " + message);
}

bool contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

void check(const std::vector<SearchRequest>& requests, const SearchOptions& options) {
  require(options.beam >= 1, "beam is " + std::to_string(options.beam) + "; needed: at least 1");
  require(options.nbest >= 1 && options.nbest <= options.beam,
          "nbest is " + std::to_string(options.nbest) + "; needed: 1 … beam (" +
              std::to_string(options.beam) + ")");
  require(options.stop_after == 0 || options.stop_after >= options.nbest,
          "stop_after is " + std::to_string(options.stop_after) +
              "; needed: 0, or at least nbest (" + std::to_string(options.nbest) + ")");
  require(options.min_length >= 0,
          "min_length is " + std::to_string(options.min_length) + "; needed: at least 0");
  require(std::isfinite(options.length_penalty),
          "length_penalty is " + std::to_string(options.length_penalty) + "; needed: a number");
  require(!contains(options.forbidden, options.eos),
          "the end token " + std::to_string(options.eos) + " is forbidden; use min_length");
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::string place = "request " + std::to_string(i) + ": ";
    require(
        requests[i].max_length >= 0,
        place + "max_length is " + std::to_string(requests[i].max_length) + "; needed: at least 0");
    require(!contains(requests[i].prefix, options.eos),
            place + "the prefix holds the end token " + std::to_string(options.eos));
  }
}

/// All sentences that are still searched, and the rows they have in the present step.
class Batch {
 public:
  Batch(const StepFunction& step, const std::vector<SearchRequest>& requests,
        const SearchOptions& options)
      : step_(step), requests_(requests), options_(options), first_row_(requests.size()) {
    beams_.reserve(requests.size());
    for (const SearchRequest& request : requests) beams_.emplace_back(request, options);
    std::iota(first_row_.begin(), first_row_.end(), 0);  // the parents of the first step
  }

  std::vector<std::vector<Hypothesis>> run() {
    while (place_rows() > 0) {
      predict();
      advance();
    }
    std::vector<std::vector<Hypothesis>> results;
    for (SentenceBeam& beam : beams_) results.push_back(beam.take());
    return results;
  }

 private:
  /// Lines the live rows of all sentences up; returns their number.
  int64_t place_rows() {
    tokens_.clear();
    parents_.clear();
    may_end_.clear();
    for (size_t i = 0; i < beams_.size(); ++i) {
      const auto first = static_cast<int64_t>(tokens_.size());
      for (int64_t row = 0; row < beams_[i].row_count(); ++row) {
        tokens_.push_back(beams_[i].token(row));
        parents_.push_back(first_row_[i] + beams_[i].parent(row));
        may_end_.push_back(beams_[i].may_end() ? 1 : 0);
      }
      first_row_[i] = first;
    }
    return static_cast<int64_t>(tokens_.size());
  }

  /// Runs the model on the live rows.
  void predict() {
    ++step_number_;
    const int64_t wanted =
        candidates_considered(options_.beam, std::numeric_limits<int64_t>::max());
    step_({tokens_, parents_, may_end_, options_.forbidden, wanted}, picks_);
    const size_t rows = tokens_.size();
    if (picks_.width != std::min(wanted, picks_.vocabulary) || picks_.counts.size() != rows ||
        picks_.picks.size() != rows * size_t(picks_.width)) {
      fail("returned other picks than (" + std::to_string(rows) + ", " + std::to_string(wanted) +
           " or the vocabulary)");
    }
    if (vocabulary_ == 0) check_ids(picks_.vocabulary);
    if (picks_.vocabulary != vocabulary_) {
      fail("has a vocabulary of " + std::to_string(picks_.vocabulary) + " after " +
           std::to_string(vocabulary_));
    }
  }

  /// The first step tells how many tokens there are; only now can ids be checked.
  void check_ids(int64_t size) {
    const auto check_id = [size](const std::string& kind, int32_t id) {
      require(id >= 0 && id < size, kind + " " + std::to_string(id) +
                                        " is outside the vocabulary of " + std::to_string(size));
    };
    check_id("the end token", options_.eos);
    for (const SearchRequest& request : requests_) {
      for (const int32_t id : request.prefix) check_id("prefix token", id);
    }
    for (const int32_t id : options_.forbidden) check_id("forbidden token", id);
    vocabulary_ = size;
  }

  void advance() {
    for (size_t i = 0; i < beams_.size(); ++i) {
      SentenceBeam& beam = beams_[i];
      if (beam.row_count() == 0) continue;
      if (beam.forced()) {
        beam.advance_by_prefix();
        continue;
      }
      candidates_.clear();
      for (int64_t row = 0; row < beam.row_count(); ++row) add_candidates(beam, row, first_row_[i]);
      beam.advance(candidates_);
      if (beam.row_count() == 0 && !beam.has_output()) {
        fail("leaves request " + std::to_string(i) + " no possible token");
      }
    }
  }

  void add_candidates(const SentenceBeam& beam, int64_t row, int64_t first_row) {
    const int64_t place = first_row + row;
    const TokenPick* picks = picks_.picks.data() + place * picks_.width;
    for (int64_t i = 0; i < picks_.counts[size_t(place)]; ++i) {
      if (!(picks[i].log_probability <= kLargest)) {
        fail("row " + std::to_string(place) + ": token " + std::to_string(picks[i].token) +
             " has log-probability " + std::to_string(picks[i].log_probability) +
             "; needed: at most 0");
      }
      candidates_.push_back(
          {beam.log_probability(row) + picks[i].log_probability, row, picks[i].token});
    }
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("search: step " + std::to_string(step_number_) + " " + what);
  }

  const StepFunction& step_;
  const std::vector<SearchRequest>& requests_;
  const SearchOptions& options_;
  std::vector<SentenceBeam> beams_;
  std::vector<int64_t> first_row_;  // of each sentence, in the step last placed
  std::vector<int64_t> tokens_, parents_;
  std::vector<char> may_end_;
  StepPicks picks_;
  int64_t vocabulary_ = 0;  // unknown before the first step
  std::vector<Candidate> candidates_;
  int64_t step_number_ = 0;
};

}  // namespace

std::vector<std::vector<Hypothesis>> search(const StepFunction& step,
                                            const std::vector<SearchRequest>& requests,
                                            const SearchOptions& options) {
  check(requests, options);
  return Batch(step, requests, options).run();
}

}  // namespace headwise::decode
