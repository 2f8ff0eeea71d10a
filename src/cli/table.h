// Aligned columns of text.
#pragma once

#include <string>
#include <vector>

namespace headwise::cli {

/// One line for each row, two spaces between columns, every column as wide as its widest cell.
/// Columns whose index is in `right` are aligned to the right. Rows may be shorter than the first.
std::string table(const std::vector<std::vector<std::string>>& rows,
                  const std::vector<size_t>& right = {});

}  // namespace headwise::cli
