#include "src/io/diary.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "src/config/error.h"
#include "src/io/file.h"

namespace headwise::io {
namespace {

using nlohmann::ordered_json;

void keep_entries_to(const std::filesystem::path& path, int64_t step) {
  std::ifstream in(path);
  if (!in) return;
  std::string kept, line;
  while (std::getline(in, line)) {
    const ordered_json entry = ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!entry.is_object() || entry.value("step", int64_t{0}) > step) continue;
    kept += line + '\n';
  }
  replace_file(path, kept);
}

}  // namespace

Diary::Diary(const std::filesystem::path& path, int64_t keep_to_step) : path_(path) {
  if (keep_to_step >= 0) keep_entries_to(path, keep_to_step);
  out_.open(path, std::ios::app);
  if (!out_) throw UserError("cannot write " + path.string() + ": " + std::strerror(errno));
}

void Diary::write(const std::string& event, const DiaryEntry& entry) {
  ordered_json line = {{"event", event}};
  for (const auto& [key, value] : entry) {
    std::visit([&line, &name = key](const auto& v) { line[name] = v; }, value);
  }
  out_ << line.dump() << std::endl;
  if (!out_) throw UserError("cannot write " + path_.string() + ": " + std::strerror(errno));
}

}  // namespace headwise::io
