// How much memory a run needs: said before its first update, compared with what it took.
#pragma once

#include <cstdint>
#include <string>

#include "src/cost/memory.h"

namespace headwise::train {

struct ProcessMemory {
  int64_t now = 0, peak = 0;  // bytes resident
};

/// Of this process, as the system counts it.
ProcessMemory process_memory();

/// "412 MiB"
std::string mebibytes(int64_t bytes);

}  // namespace headwise::train
