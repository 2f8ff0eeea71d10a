#include "src/cli/signals.h"

#include <unistd.h>

#include <csignal>

namespace headwise::cli {
namespace {

volatile std::sig_atomic_t caught_signal = 0;

void on_signal(int signal) {
  if (caught_signal != 0) _exit(128 + signal);
  caught_signal = signal;
}

}  // namespace

void catch_stop_signals() {
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;  // library calls go on; safe points decide
  sigemptyset(&action.sa_mask);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    struct sigaction before = {};
    sigaction(signal, nullptr, &before);
    const bool ignored = before.sa_handler == SIG_IGN;  // nohup's wish stands
    if (!ignored) sigaction(signal, &action, nullptr);
  }
}

SafePoint stop_signal_safe_point() {
  return [] {
    if (caught_signal != 0) throw Interrupted{caught_signal};
  };
}

void ignore_broken_pipes() { std::signal(SIGPIPE, SIG_IGN); }

}  // namespace headwise::cli
