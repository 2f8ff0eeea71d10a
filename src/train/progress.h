// What a person sees of a run: one line that renews itself on a terminal, plain log lines
// elsewhere.
#pragma once

#include <cstdint>
#include <string>

namespace headwise::train {

/// A moment of a run, averaged over the updates since the last one shown.
struct Progress {
  int64_t step = 0;
  double epoch = 0;  // passes over the data, with fraction
  double loss = 0;   // label-smoothed, per target piece
  double nll = 0;    // unsmoothed
  double learning_rate = 0;
  double gradient_norm = 0;
  double tokens_per_second = 0;  // source + target pieces, end tokens included
  double padding_share = 0;  // of the positions a padded batch would hold; packed, none is computed
  double remaining_seconds = 0;  // until the nearest stop; < 0: unknown
};

std::string line_of(const Progress& progress);

/// Standard error as the place for progress. Remembers whether it is a terminal.
class ProgressLine {
 public:
  ProgressLine();
  bool on_terminal() const { return terminal_; }
  /// Terminal: rewrites the line in place, cut to the terminal's width. Elsewhere: logs it.
  void show(const std::string& line);
  /// Terminal: ends the line, so that what follows starts on a fresh one.
  void finish();

 private:
  bool terminal_;
  bool open_ = false;
};

}  // namespace headwise::train
