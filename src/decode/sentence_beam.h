// The beam of one sentence: its live rows, its finished hypotheses and when it is done. No tensors.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "src/decode/search.h"

namespace headwise::decode {

/// log_probability / length^penalty; an output of no predictions keeps its 0.
double normalised_score(double log_probability, int64_t length, double penalty);

/// How many of `available` candidates a beam looks at: 2·beam, since at most `beam` of them end. A
/// beam of 1 looks at the best one only, which makes it greedy: it ends with its first end token.
int64_t candidates_considered(int64_t beam, int64_t available);

/// One way to go on: `token` after live row `row` of the sentence.
struct Candidate {
  double log_probability = 0;  // of the whole hypothesis
  int64_t row = 0;
  int32_t token = 0;
};

class SentenceBeam {
 public:
  /// Both must outlive the beam.
  SentenceBeam(const SearchRequest& request, const SearchOptions& options);

  int64_t row_count() const { return static_cast<int64_t>(rows_.size()); }  // 0: done
  int32_t token(int64_t row) const;                                // what the row is fed next
  int64_t parent(int64_t row) const { return rows_[row].parent; }  // its row before the last step
  double log_probability(int64_t row) const { return rows_[row].log_probability; }

  /// True while the next token is given by the prefix.
  bool forced() const { return forced_ < request_.prefix.size(); }
  void advance_by_prefix();

  bool may_end() const { return predicted_ >= options_.min_length; }
  /// Takes the best of `candidates` (reordered here): ends hypotheses, keeps `beam` rows alive.
  /// Equal ones: lower row first, then lower token.
  void advance(std::vector<Candidate>& candidates);

  bool has_output() const { return !ended_.empty(); }
  /// The nbest outputs, best first; of equal scores the one that ended earlier is first.
  std::vector<Hypothesis> take() { return std::move(ended_); }

 private:
  struct Node {  // a token and the one before it; the live rows share their pasts
    int32_t token;
    int32_t before;  // -1: the sentence starts here
  };
  struct Row {
    int32_t node;
    int64_t parent;
    double log_probability;
  };

  int32_t add_node(int32_t token, int32_t before);
  void end(const Row& row, bool finished);
  bool is_done() const;

  const SearchRequest& request_;
  const SearchOptions& options_;
  std::vector<Node> nodes_;
  std::vector<Row> rows_;          // best first
  std::vector<Hypothesis> ended_;  // at most nbest, best first
  size_t forced_ = 0;              // tokens of the prefix taken
  int64_t finished_ = 0;           // ended among the `beam` best candidates of a step
  int64_t predicted_ = 0;          // tokens chosen in each live row, prefix not counted
};

}  // namespace headwise::decode
