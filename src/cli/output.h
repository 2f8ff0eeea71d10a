// Results on standard output, every failed write noticed.
#pragma once

#include <string_view>

namespace headwise::cli {

/// Writes to standard output (buffered).
/// @throws Interrupted{SIGPIPE} when the reader has gone, UserError for anything else (disk full
/// …).
void print(std::string_view text);

/// Makes what was printed visible. Throws as print(); main() calls it once more at the end.
void flush_output();

}  // namespace headwise::cli
