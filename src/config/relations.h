// What must hold between keys, each of which is right by itself.
#pragma once

#include <string>
#include <vector>

#include "src/config/config.h"

namespace headwise::config {

/// Keys that do not go together, the one to look at first in front, and what is wrong.
struct Conflict {
  std::vector<std::string> keys;
  std::string text;  // "found …; needed …"
};

std::vector<Conflict> conflicts(const Config& config);

}  // namespace headwise::config
