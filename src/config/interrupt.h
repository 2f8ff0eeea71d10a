// SIGTERM and SIGINT as an exception at a safe point: the handler only sets a flag.
#pragma once

#include <functional>

namespace headwise {

/// Thrown at a safe point after a stop signal; the process ends with 128 + signal.
struct Interrupted {
  int signal = 0;
};

/// Called between pieces of work that take well under a second; throws Interrupted to stop them.
using SafePoint = std::function<void()>;

}  // namespace headwise
