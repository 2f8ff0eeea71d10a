// Stop signals: the handler sets a flag, safe points turn it into an exception.
#pragma once

#include "src/config/interrupt.h"

namespace headwise::cli {

/// From now on the first SIGTERM, SIGINT or SIGHUP only sets a flag; the second ends the process at
/// once with 128 + signal.
void catch_stop_signals();

/// Throws Interrupted once a caught signal has come.
SafePoint stop_signal_safe_point();

/// A reader that goes away shows as a failed write, not as a dead process.
void ignore_broken_pipes();

}  // namespace headwise::cli
