#include "src/train/memory.h"

#include <fstream>

#include "src/config/error.h"

namespace headwise::train {

ProcessMemory process_memory() {
  ProcessMemory memory;
  std::ifstream status("/proc/self/status");
  std::string word;
  int64_t kibibytes = 0;
  while (status >> word) {
    if (word == "VmRSS:" && status >> kibibytes) memory.now = 1024 * kibibytes;
    if (word == "VmHWM:" && status >> kibibytes) memory.peak = 1024 * kibibytes;
  }
  return memory;
}

std::string mebibytes(int64_t bytes) { return text_of(bytes / (1 << 20), " MiB"); }

}  // namespace headwise::train
