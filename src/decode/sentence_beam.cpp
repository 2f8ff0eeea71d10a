#include "src/decode/sentence_beam.h"

#include <algorithm>
#include <cmath>
#include <tuple>

namespace headwise::decode {

double normalised_score(double log_probability, int64_t length, double penalty) {
  return length == 0 ? log_probability
                     : log_probability / std::pow(static_cast<double>(length), penalty);
}

int64_t candidates_considered(int64_t beam, int64_t available) {
  if (beam == 1) return std::min<int64_t>(1, available);
  return std::min(2 * std::min(beam, available), available);
}

SentenceBeam::SentenceBeam(const SearchRequest& request, const SearchOptions& options)
    : request_(request), options_(options), rows_{{-1, 0, 0.0}} {
  if (request.max_length > 0) return;
  while (forced()) advance_by_prefix();
  end(rows_[0], false);
  rows_.clear();
}

int32_t SentenceBeam::token(int64_t row) const {
  const int32_t node = rows_[row].node;
  return node < 0 ? options_.bos : nodes_[node].token;
}

int32_t SentenceBeam::add_node(int32_t token, int32_t before) {
  nodes_.push_back({token, before});
  return static_cast<int32_t>(nodes_.size()) - 1;
}

void SentenceBeam::advance_by_prefix() {
  const int32_t node = add_node(request_.prefix[forced_++], rows_[0].node);
  rows_[0] = {node, 0, 0.0};
}

void SentenceBeam::advance(std::vector<Candidate>& candidates) {
  const int64_t considered =
      candidates_considered(options_.beam, static_cast<int64_t>(candidates.size()));
  std::partial_sort(candidates.begin(), candidates.begin() + considered, candidates.end(),
                    [](const Candidate& a, const Candidate& b) {
                      return std::tuple(-a.log_probability, a.row, a.token) <
                             std::tuple(-b.log_probability, b.row, b.token);
                    });
  ++predicted_;
  std::vector<Row> next;
  for (int64_t i = 0; i < considered; ++i) {
    const Candidate& candidate = candidates[i];
    const int32_t before = rows_[candidate.row].node;
    if (candidate.token == options_.eos) {
      end({before, candidate.row, candidate.log_probability}, true);
      if (i < options_.beam) ++finished_;
    } else if (static_cast<int64_t>(next.size()) < options_.beam) {
      next.push_back({add_node(candidate.token, before), candidate.row, candidate.log_probability});
    }
  }
  rows_ = std::move(next);
  if (predicted_ == request_.max_length) {
    for (const Row& row : rows_) end(row, false);
    rows_.clear();
  } else if (is_done()) {
    rows_.clear();
  }
}

void SentenceBeam::end(const Row& row, bool finished) {
  const double score = normalised_score(row.log_probability, predicted_, options_.length_penalty);
  const auto place =
      std::upper_bound(ended_.begin(), ended_.end(), score,
                       [](double value, const Hypothesis& other) { return value > other.score; });
  const bool full = static_cast<int64_t>(ended_.size()) == options_.nbest;
  if (full && place == ended_.end()) return;
  Hypothesis hypothesis{{}, row.log_probability, score, finished};
  for (int32_t node = row.node; node >= 0; node = nodes_[node].before) {
    hypothesis.ids.push_back(nodes_[node].token);
  }
  std::reverse(hypothesis.ids.begin(), hypothesis.ids.end());
  ended_.insert(place, std::move(hypothesis));
  if (full) ended_.pop_back();
}

bool SentenceBeam::is_done() const {
  if (rows_.empty()) return true;
  if (options_.stop_after > 0 && finished_ >= options_.stop_after) return true;
  if (static_cast<int64_t>(ended_.size()) < options_.nbest) return false;
  // The sum can only fall from here. At best it stays, and the row ends at the length that divides
  // it most kindly: the longest one for a positive penalty, the next one for a negative.
  const double sum = rows_[0].log_probability;
  const double best = std::max(normalised_score(sum, predicted_ + 1, options_.length_penalty),
                               normalised_score(sum, request_.max_length, options_.length_penalty));
  return !(best > ended_.back().score);
}

}  // namespace headwise::decode
