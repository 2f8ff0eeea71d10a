// Lines of a stream that may pause: a stop signal ends the wait, not only the next line.
#pragma once

#include <optional>
#include <string>

#include "src/config/interrupt.h"

namespace headwise::cli {

class LineReader {
 public:
  /// `safe_point` is called at least every fifth of a second while nothing comes.
  LineReader(int descriptor, SafePoint safe_point);

  /// The next line without its LF or CR LF; nothing once the stream has ended.
  /// @throws UserError if the stream cannot be read.
  std::optional<std::string> next();

 private:
  bool fill();  // false at the end of the stream

  int descriptor_;
  SafePoint safe_point_;
  std::string buffer_;  // read and not yet given out from begin_ on
  size_t begin_ = 0;
};

}  // namespace headwise::cli
