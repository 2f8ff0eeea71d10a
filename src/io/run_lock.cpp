#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>

#include "src/config/error.h"
#include "src/io/checkpoint_folder.h"
#include "src/io/file.h"
#include "src/io/replace.h"

namespace headwise::io {

RunLock::RunLock(const std::filesystem::path& run) {
  std::error_code error;
  std::filesystem::create_directories(run, error);
  if (error) fail(run, "create the folder", error.value());
  const std::filesystem::path path = run / ".lock";
  descriptor_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(path, "create", errno);
  try {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) fail(path, "lock", errno);
      throw UserError(text_of(run.string(),
                              ": another process is writing to this folder; needed "
                              "a folder of its own for every run"));
    }
    restore_replaced(run);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

// The file stays: removing it would let two processes lock two different files of that name.
RunLock::~RunLock() { ::close(descriptor_); }

}  // namespace headwise::io
