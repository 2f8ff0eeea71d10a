#include "src/log/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>

namespace headwise::log {

void set_up() {
  spdlog::set_default_logger(spdlog::stderr_color_mt("headwise"));
  spdlog::set_pattern("%H:%M:%S %^%l%$ %v");
  const char* level = std::getenv("HEADWISE_LOG");
  if (level != nullptr) spdlog::set_level(spdlog::level::from_str(level));
}

void write(Level level, const std::string& message) {
  spdlog::log(level == Level::kInfo ? spdlog::level::info : spdlog::level::warn, "{}", message);
}

std::string fixed(double value, int digits) { return fmt::format("{:.{}f}", value, digits); }

}  // namespace headwise::log
