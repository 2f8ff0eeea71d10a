#include "src/cli/line_reader.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "src/config/error.h"

namespace headwise::cli {
namespace {

constexpr int kPatience = 200;  // milliseconds between looks at the stop flag
constexpr size_t kChunk = size_t{1} << 16;

[[noreturn]] void fail() {
  throw UserError(std::string("cannot read standard input: ") + std::strerror(errno));
}

}  // namespace

LineReader::LineReader(int descriptor, SafePoint safe_point)
    : descriptor_(descriptor), safe_point_(std::move(safe_point)) {}

std::optional<std::string> LineReader::next() {
  size_t searched = begin_;
  size_t end = buffer_.find('\n', searched);
  while (end == std::string::npos) {
    searched = buffer_.size() - begin_;
    if (!fill()) {
      if (begin_ == buffer_.size()) return std::nullopt;
      return buffer_.substr(std::exchange(begin_, buffer_.size()));
    }
    end = buffer_.find('\n', searched);
  }
  std::string line = buffer_.substr(begin_, end - begin_);
  begin_ = end + 1;
  if (line.ends_with('\r')) line.pop_back();
  return line;
}

bool LineReader::fill() {
  buffer_.erase(0, std::exchange(begin_, 0));
  while (true) {
    safe_point_();
    // read() would be restarted after a signal; poll() never is, and looks up by itself.
    pollfd wanted{descriptor_, POLLIN, 0};
    const int ready = ::poll(&wanted, 1, kPatience);
    if (ready == 0 || (ready < 0 && errno == EINTR)) continue;
    if (ready < 0) fail();
    const size_t before = buffer_.size();
    buffer_.resize(before + kChunk);
    const ssize_t got = ::read(descriptor_, buffer_.data() + before, kChunk);
    buffer_.resize(before + (got > 0 ? size_t(got) : 0));
    if (got < 0 && errno != EINTR && errno != EAGAIN) fail();
    if (got >= 0) return got > 0;
  }
}

}  // namespace headwise::cli
