#include "src/data/utf8_repair.h"

#include "src/data/unicode.h"

namespace headwise::data {

std::string repair_utf8(std::string_view text) {
  std::string repaired;
  repaired.reserve(text.size());
  int64_t offset = 0;
  while (offset < static_cast<int64_t>(text.size())) {
    const int64_t begin = offset;
    if (next_character(text, offset) < 0) {
      repaired += "\xEF\xBF\xBD";
    } else {
      repaired += text.substr(size_t(begin), size_t(offset - begin));
    }
  }
  return repaired;
}

}  // namespace headwise::data
