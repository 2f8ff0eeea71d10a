// metrics.jsonl: one JSON object a line, appended and flushed as a run goes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace headwise::io {

using DiaryValue = std::variant<int64_t, double, std::string>;
using DiaryEntry = std::vector<std::pair<std::string, DiaryValue>>;

class Diary {
 public:
  /// Opens `path` for appending. With `keep_to_step` >= 0 entries of later steps, which a resumed
  /// run will write again, and a torn last line are removed first (through a rename).
  /// @throws UserError naming the path and the reason.
  Diary(const std::filesystem::path& path, int64_t keep_to_step);
  /// Writes {"event": event, …}; numbers that are not finite become null.
  void write(const std::string& event, const DiaryEntry& entry);

 private:
  std::filesystem::path path_;
  std::ofstream out_;
};

}  // namespace headwise::io
