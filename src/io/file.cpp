#include "src/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "src/config/error.h"

namespace headwise::io {
namespace fs = std::filesystem;

void fail(const fs::path& path, const std::string& doing, int error) {
  throw UserError(
      text_of(path.string(), ": cannot ", doing, ": ", std::generic_category().message(error)));
}

File::File(const fs::path& path, int flags, const char* doing) : path_(path) {
  do {
    descriptor_ = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) fail(path, doing, errno);
}

File File::create(const fs::path& path) {
  return File(path, O_WRONLY | O_CREAT | O_TRUNC, "create");
}

// Without O_NONBLOCK a named pipe in place of a file would wait for a writer for ever.
File File::open(const fs::path& path) { return File(path, O_RDONLY | O_NONBLOCK, "open"); }

File::File(File&& other) noexcept
    : path_(std::move(other.path_)), descriptor_(std::exchange(other.descriptor_, -1)) {}

File::~File() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

size_t File::size() const {
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0) fail(path_, "read", errno);
  if (S_ISDIR(status.st_mode)) fail(path_, "read", EISDIR);
  if (!S_ISREG(status.st_mode)) {
    throw UserError(text_of(path_.string(), ": cannot read: this is not a regular file"));
  }
  return static_cast<size_t>(status.st_size);
}

void File::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor_, bytes.data(), bytes.size());
    if (written > 0) {
      bytes = bytes.subspan(static_cast<size_t>(written));
    } else if (written == 0 || errno != EINTR) {
      fail(path_, "write", written == 0 ? ENOSPC : errno);
    }
  }
}

size_t File::read(std::span<std::byte> bytes) {
  size_t total = 0;
  while (total < bytes.size()) {
    const ssize_t got = ::read(descriptor_, bytes.data() + total, bytes.size() - total);
    if (got == 0) break;
    if (got > 0) {
      total += static_cast<size_t>(got);
    } else if (errno != EINTR) {
      fail(path_, "read", errno);
    }
  }
  return total;
}

void File::sync() {
  while (::fsync(descriptor_) != 0) {
    // EINVAL, EROFS: this kind of file (a device, a folder on some file systems) has nothing to
    // sync.
    if (errno == EINVAL || errno == EROFS) return;
    if (errno != EINTR) fail(path_, "sync", errno);
  }
}

void File::close() {
  // After EINTR Linux has closed the descriptor all the same: a second close could hit another
  // file.
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) fail(path_, "write", errno);
}

void write_file(const fs::path& path, const std::string& text) {
  File file = File::create(path);
  file.write(std::as_bytes(std::span(text)));
  file.sync();
  file.close();
}

void replace_file(const fs::path& path, const std::string& text) {
  const fs::path fresh = path.string() + ".tmp";
  try {
    write_file(fresh, text);
    if (::rename(fresh.c_str(), path.c_str()) != 0) fail(path, "replace", errno);
  } catch (...) {
    ::unlink(fresh.c_str());
    throw;
  }
  sync_folder(fs::absolute(path).parent_path());
}

std::string read_file(const fs::path& path) {
  File file = File::open(path);
  std::string text(file.size(), '\0');
  text.resize(file.read(std::as_writable_bytes(std::span(text))));
  return text;
}

void sync_folder(const fs::path& folder) { File::open(folder).sync(); }

}  // namespace headwise::io
