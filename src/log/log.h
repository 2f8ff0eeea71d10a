// The log: one line an event on standard error. spdlog does the work in log.cpp alone, because
// libtorch's include folder carries another fmt than the system's spdlog is built with.
#pragma once

#include <string>

#include "src/config/error.h"

namespace headwise::log {

enum class Level { kInfo, kWarning };

/// Time, level and message on standard error. The environment variable HEADWISE_LOG sets what is
/// shown: trace, debug, info (default), warn, err, off.
void set_up();

void write(Level level, const std::string& message);

template <typename... Parts>
void info(const Parts&... parts) {
  write(Level::kInfo, text_of(parts...));
}

template <typename... Parts>
void warn(const Parts&... parts) {
  write(Level::kWarning, text_of(parts...));
}

/// `value` with `digits` after the point.
std::string fixed(double value, int digits);

}  // namespace headwise::log
