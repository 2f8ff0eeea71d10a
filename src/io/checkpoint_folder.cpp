#include "src/io/checkpoint_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <limits>
#include <stdexcept>

#include "src/config/error.h"
#include "src/io/file.h"
#include "src/io/manifest.h"
#include "src/io/replace.h"

namespace headwise::io {
namespace fs = std::filesystem;
namespace {

const std::string kStep = "step-";
const std::string kTemporary = ".tmp-";

/// `.tmp-NAME-PID`: the process id tells later whether its maker is still at work.
fs::path temporary(const fs::path& run, const std::string& name) {
  return run / text_of(kTemporary, name, "-", ::getpid());
}

/// The whole of `digits` as a positive or zero number without leading zeros.
std::optional<int64_t> number_of(const std::string& digits) {
  int64_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto result = std::from_chars(digits.data(), end, number);
  if (result.ec != std::errc{} || result.ptr != end || std::to_string(number) != digits) {
    return std::nullopt;
  }
  return number < 0 ? std::nullopt : std::optional(number);
}

bool starts_with(const std::string& text, const std::string& prefix) {
  return text.rfind(prefix, 0) == 0;
}

/// A left-over of a process that is gone, or of an earlier failure of this one.
bool is_stale(const std::string& name) {
  if (!starts_with(name, kTemporary)) return false;
  const auto process = number_of(name.substr(name.rfind('-') + 1));
  if (!process || *process == 0 || *process > std::numeric_limits<pid_t>::max()) return false;
  const auto pid = static_cast<pid_t>(*process);
  return pid == ::getpid() || (::kill(pid, 0) != 0 && errno == ESRCH);
}

std::vector<fs::directory_entry> entries_of(const fs::path& run) {
  std::error_code error;
  const fs::directory_iterator iterator(run, error);
  if (error == std::errc::no_such_file_or_directory) return {};
  if (error) fail(run, "read", error.value());
  return {begin(iterator), end(iterator)};
}

/// Where a symbolic link of this run points: the name of a folder beside it; empty when there is
/// none.
std::string pointed_at(const fs::path& link) {
  std::error_code none;
  return fs::read_symlink(link, none).filename().string();
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error && error != std::errc::no_such_file_or_directory) fail(path, "remove", error.value());
}

/// The folder itself, not the link to it: a run in progress may turn the link while files are read.
fs::path behind_link(const fs::path& path) {
  std::error_code none;
  return fs::is_symlink(path, none) ? path.parent_path() / fs::read_symlink(path, none) : path;
}

bool holds_manifest(const fs::path& folder) {
  std::error_code none;
  return fs::is_regular_file(folder / kManifestFile, none);
}

}  // namespace

void publish(const fs::path& run, const std::string& name,
             const std::function<void(const fs::path& folder)>& fill) {
  if (name.empty() || name.front() == '.' || name.find('/') != std::string::npos) {
    throw std::invalid_argument("not a name for a checkpoint: \"" + name + "\"");
  }
  std::error_code error;
  fs::create_directories(run, error);
  if (error) fail(run, "create the folder", error.value());
  const fs::path folder = temporary(run, name);
  try {
    remove_tree(folder);
    fs::create_directory(folder, error);
    if (error) fail(folder, "create the folder", error.value());
    fill(folder);
    write_manifest(folder);
    for (const fs::directory_entry& entry : entries_of(folder)) File::open(entry.path()).sync();
    sync_folder(folder);
    replace_folder(folder, run / name);
  } catch (...) {
    fs::remove_all(folder, error);  // what is thrown already says more than a failure here would
    throw;
  }
}

void point(const fs::path& run, const std::string& link, const std::string& name) {
  const fs::path fresh = temporary(run, link);
  remove_tree(fresh);
  if (::symlink(name.c_str(), fresh.c_str()) != 0) fail(run / link, "create the link", errno);
  if (::rename(fresh.c_str(), (run / link).c_str()) != 0) {
    const int reason = errno;
    ::unlink(fresh.c_str());
    fail(run / link, "replace the link", reason);
  }
  sync_folder(run);
}

std::vector<int64_t> steps(const fs::path& run) {
  std::vector<int64_t> numbers;
  for (const fs::directory_entry& entry : entries_of(run)) {
    const std::string name = entry.path().filename().string();
    std::error_code none;
    if (!starts_with(name, kStep) || !fs::is_directory(entry.symlink_status(none))) continue;
    if (const auto number = number_of(name.substr(kStep.size()))) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

std::optional<int64_t> newest_whole(const fs::path& run,
                                    const std::function<void(const std::string&)>& warn) {
  std::vector<int64_t> numbers = steps(run);
  for (auto step = numbers.rbegin(); step != numbers.rend(); ++step) {
    try {
      verify(run / (kStep + std::to_string(*step)));
      return *step;
    } catch (const UserError& error) {
      warn(text_of(kStep, *step, " is passed over: ", error.what()));
    }
  }
  return std::nullopt;
}

void prune(const fs::path& run, int64_t keep) {
  std::vector<int64_t> numbers = steps(run);
  const auto surplus = static_cast<int64_t>(numbers.size()) - std::max<int64_t>(keep, 0);
  numbers.resize(static_cast<size_t>(std::max<int64_t>(surplus, 0)));
  const std::string best = pointed_at(run / "best");
  const std::string last = pointed_at(run / "last");
  for (const int64_t number : numbers) {
    const std::string name = kStep + std::to_string(number);
    if (name == best || name == last) continue;
    // Set aside first: a kill while files go must not leave half a checkpoint under its name.
    const fs::path aside = temporary(run, name);
    remove_tree(aside);
    if (::rename((run / name).c_str(), aside.c_str()) != 0 && errno != ENOENT) {
      fail(run / name, "remove", errno);
    }
  }
  for (const fs::directory_entry& entry : entries_of(run)) {
    if (is_stale(entry.path().filename().string())) remove_tree(entry.path());
  }
}

fs::path resolve_checkpoint(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) fail(path, "open", error ? error.value() : ENOENT);
  if (holds_manifest(path)) return behind_link(path);
  for (const char* link : {"best", "last"}) {
    if (holds_manifest(path / link)) return behind_link(path / link);
  }
  const std::vector<int64_t> numbers = steps(path);
  for (auto step = numbers.rbegin(); step != numbers.rend(); ++step) {
    const fs::path folder = path / (kStep + std::to_string(*step));
    if (holds_manifest(folder)) return folder;
  }
  throw UserError(text_of(path.string(), ": found no checkpoint; needed a folder with ",
                          kManifestFile, ", or one with best, last or step-N folders"));
}

}  // namespace headwise::io
