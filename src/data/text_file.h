// Lines of a text file, plain or gzip. Only LF ends a line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "src/data/sha256.h"

namespace headwise::data {

struct TextFile {
  std::vector<std::string> lines;
  int64_t bytes = 0;             // of the file, decompressed
  int64_t carriage_returns = 0;  // CR LF line ends; the CR is not part of the line
  bool gzip = false;             // recognised by its first bytes, not by its name
  bool byte_order_mark = false;  // the file began with a UTF-8 byte-order mark; it was removed
  bool ends_with_newline = true;
};

/// Reads a whole file. LF ends a line and a CR before it is removed; every other byte, a lone CR,
/// U+0085, U+2028, U+2029, VT and FF among them, stays inside its line. A last line without LF is a
/// line. `digest`, if given, is fed the decompressed bytes as they lie in the file.
/// @throws UserError if the file is missing, is a folder, cannot be read, or is damaged gzip.
TextFile read_lines(const std::filesystem::path& path, Sha256* digest = nullptr);

}  // namespace headwise::data
