// Files through descriptors: every call checked, every failure a UserError with path and reason.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace headwise::io {

/// An open file; closing is checked when asked for, silent in the destructor.
class File {
 public:
  static File create(const std::filesystem::path& path);  // for writing; cuts what was there
  static File open(const std::filesystem::path& path);    // for reading; a file or a folder
  File(File&& other) noexcept;
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  File& operator=(File&&) = delete;

  size_t size() const;  // of a regular file; anything else is an error
  void write(std::span<const std::byte> bytes);
  /// Reads until `bytes` is full or the file ends; returns the bytes read.
  size_t read(std::span<std::byte> bytes);
  void sync();
  void close();

 private:
  File(const std::filesystem::path& path, int flags, const char* doing);

  std::filesystem::path path_;
  int descriptor_ = -1;
};

/// Throws the UserError "PATH: cannot DOING: " + the system's words for `error`.
[[noreturn]] void fail(const std::filesystem::path& path, const std::string& doing, int error);

/// Writes and syncs a whole file.
void write_file(const std::filesystem::path& path, const std::string& text);

/// The same through a temporary file beside it: a failure leaves what was there whole.
void replace_file(const std::filesystem::path& path, const std::string& text);

/// The bytes of a regular file.
std::string read_file(const std::filesystem::path& path);

/// Makes what was created, renamed or removed in a folder last beyond a power failure.
void sync_folder(const std::filesystem::path& folder);

}  // namespace headwise::io
