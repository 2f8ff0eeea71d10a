// Values as TOML text.
#pragma once

#include <string>

#include "src/config/schema.h"

namespace headwise::config {

/// A TOML basic string: quotes, backslashes and control characters escaped.
std::string quoted(const std::string& text);

/// A short decimal that reads back as the same double: 0.1, 1e-09, 4.
std::string number_text(double number);

/// A value as TOML that reads back as the same value; a list of one number as that number.
std::string format(const Value& value);

}  // namespace headwise::config
