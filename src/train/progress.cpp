#include "src/train/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "src/log/log.h"

namespace headwise::train {
namespace {

/// printf's formats: a progress line wants fixed digits.
template <typename... Values>
std::string formatted(const char* format, Values... values) {
  char text[256];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

std::string duration(double seconds) {
  const long total = std::lround(seconds);
  return total >= 3600 ? formatted("%ld:%02ld:%02ld", total / 3600, total / 60 % 60, total % 60)
                       : formatted("%ld:%02ld", total / 60, total % 60);
}

size_t terminal_width() {
  winsize size{};
  const bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - 1u : 79u;
}

}  // namespace

std::string line_of(const Progress& p) {
  const std::string eta = p.remaining_seconds < 0 ? "?" : duration(p.remaining_seconds);
  return formatted("step %ld  epoch %.2f  loss %.3f  nll %.3f  lr %.2e  norm %.2f  ", p.step,
                   p.epoch, p.loss, p.nll, p.learning_rate, p.gradient_norm) +
         formatted("%.0f tokens/s  padding %.0f %% skipped  eta ", p.tokens_per_second,
                   100 * p.padding_share) +
         eta;
}

ProgressLine::ProgressLine() : terminal_(isatty(STDERR_FILENO) == 1) {}

void ProgressLine::show(const std::string& line) {
  if (!terminal_) {
    log::info(line);
    return;
  }
  std::fprintf(stderr, "\r%s\x1b[K", line.substr(0, terminal_width()).c_str());
  std::fflush(stderr);
  open_ = true;
}

void ProgressLine::finish() {
  if (open_) std::fputc('\n', stderr);
  open_ = false;
}

}  // namespace headwise::train
