// The seam between kernels and their caller. The caller owns threads and memory: it asks for a
// plan, then runs every item of a phase in any order and grouping on any threads, and the phases
// one after the other. Results do not depend on who runs which item.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headwise::kernels {

struct Phase {
  int64_t items = 0;
  size_t scratch_bytes = 0;  // for one item at a time; any content
  int64_t item_cost = 0;     // about how many multiplications one item takes
};

/// Query rows and keys; rows of all heads that share keys count.
struct Area {
  int64_t rows = 0, keys = 0;
};

struct Plan {
  const char* kernel = "";           // which kernel was chosen
  const char* instruction_set = "";  // what its inner loops run on
  std::vector<Phase> phases;
  size_t workspace_bytes = 0;  // shared by all items of all phases; any content at the start
  Area tile = {};              // whose scores are held at once, at most
  Area block = {};             // that an item of the first phase covers, at most
};

/// Items begin … end - 1 of a phase, run one after the other.
struct ItemRange {
  int64_t begin = 0, end = 0;
};

/// Memory an item works in, aligned for every vector.
struct Memory {
  void* scratch = nullptr;    // its own while it runs
  void* workspace = nullptr;  // shared
};

}  // namespace headwise::kernels
