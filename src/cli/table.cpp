#include "src/cli/table.h"

#include <algorithm>

namespace headwise::cli {

std::string table(const std::vector<std::vector<std::string>>& rows,
                  const std::vector<size_t>& right) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - row[i].size(), ' ');
      const bool to_the_right = std::find(right.begin(), right.end(), i) != right.end();
      if (i > 0) line += "  ";
      line += to_the_right ? space + row[i] : row[i] + space;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace headwise::cli
