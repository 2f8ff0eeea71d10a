#include "src/io/replace.h"

#include <fcntl.h>
#include <stdio.h>

#include <cerrno>
#include <string>
#include <vector>

#include "src/io/file.h"

namespace headwise::io {
namespace fs = std::filesystem;
namespace {

const std::string kReplaced = ".replaced-";

void rename_or_fail(const fs::path& from, const fs::path& to, const fs::path& named) {
  if (::rename(from.c_str(), to.c_str()) != 0) fail(named, "publish", errno);
}

void remove_folder(const fs::path& folder) {
  std::error_code error;
  fs::remove_all(folder, error);
  if (error) fail(folder, "remove", error.value());
}

}  // namespace

void replace_folder(const fs::path& fresh, const fs::path& target, Exchange exchange) {
  const fs::path run = target.parent_path();
  if (::rename(fresh.c_str(), target.c_str()) == 0) {
    sync_folder(run);
    return;
  }
  if (errno != ENOTEMPTY && errno != EEXIST) fail(target, "publish", errno);
  if (exchange == Exchange::kTry) {
    if (::renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) {
      sync_folder(run);
      remove_folder(fresh);  // now the old one
      return;
    }
    if (errno != EINVAL && errno != ENOSYS) fail(target, "publish", errno);
  }
  const fs::path waiting = run / (kReplaced + target.filename().string());
  remove_folder(waiting);
  rename_or_fail(target, waiting, target);
  rename_or_fail(fresh, target, target);
  sync_folder(run);
  remove_folder(waiting);
}

void restore_replaced(const fs::path& run) {
  std::vector<fs::path> waiting;
  std::error_code error;
  const fs::directory_iterator entries(run, error);
  if (error) fail(run, "read", error.value());
  for (const fs::directory_entry& entry : entries) {
    if (entry.path().filename().string().rfind(kReplaced, 0) == 0) waiting.push_back(entry.path());
  }
  for (const fs::path& old : waiting) {
    const fs::path target = run / old.filename().string().substr(kReplaced.size());
    if (fs::exists(fs::symlink_status(target))) {
      remove_folder(old);
    } else {
      rename_or_fail(old, target, target);
      sync_folder(run);
    }
  }
}

}  // namespace headwise::io
