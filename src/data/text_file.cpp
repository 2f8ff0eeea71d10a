#include "src/data/text_file.h"

#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string_view>
#include <system_error>

#include "src/config/error.h"

namespace headwise::data {
namespace {

constexpr size_t kChunk = size_t{1} << 16;
constexpr std::string_view kGzipMagic = "\x1f\x8b";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& reason) {
  throw UserError(text_of(path.string(), ": ", reason));
}

/// The bytes of a file in chunks.
class RawReader {
 public:
  explicit RawReader(const std::filesystem::path& path) : path_(path), file_(nullptr, std::fclose) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    if (std::filesystem::is_directory(status)) fail(path, "is a folder, a text file is needed");
    if (status.type() == std::filesystem::file_type::not_found) fail(path, "no such file");
    file_.reset(std::fopen(path.c_str(), "rb"));
    if (!file_) fail(path, text_of("cannot be opened: ", std::strerror(errno)));
  }

  /// The next bytes, empty at the end of the file; valid until the next call.
  std::string_view next() {
    const size_t size = std::fread(buffer_.data(), 1, buffer_.size(), file_.get());
    if (size < buffer_.size() && std::ferror(file_.get())) {
      fail(path_, text_of("cannot be read: ", std::strerror(errno)));
    }
    return {buffer_.data(), size};
  }

 private:
  const std::filesystem::path& path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::string buffer_ = std::string(kChunk, '\0');
};

/// Turns gzip bytes into plain ones, member after member.
class Inflater {
 public:
  explicit Inflater(const std::filesystem::path& path) : path_(path) {
    if (inflateInit2(&stream_, 15 + 16) != Z_OK) fail(path, "zlib could not be started");
  }
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  template <typename Sink>
  void feed(std::string_view compressed, Sink&& sink) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(compressed.data()));
    stream_.avail_in = static_cast<uInt>(compressed.size());
    do {
      if (member_ended_ && !begin_next_member()) return;
      stream_.next_out = reinterpret_cast<Bytef*>(buffer_.data());
      stream_.avail_out = static_cast<uInt>(buffer_.size());
      const int result = inflate(&stream_, Z_NO_FLUSH);
      if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR) {
        fail(path_, text_of("damaged gzip data", stream_.msg ? text_of(" (", stream_.msg, ")") : "",
                            "; compress the text again or give it uncompressed"));
      }
      sink(std::string_view(buffer_.data(), buffer_.size() - stream_.avail_out));
      member_ended_ = result == Z_STREAM_END;
    } while (stream_.avail_in > 0 || stream_.avail_out == 0);
  }

  void finish() const {
    if (!member_ended_) fail(path_, "gzip data ends too early; the file is incomplete");
  }

 private:
  /// Zero bytes after a member are padding, as for gzip itself; anything else is a new member.
  bool begin_next_member() {
    while (stream_.avail_in > 0 && *stream_.next_in == 0) {
      ++stream_.next_in;
      --stream_.avail_in;
    }
    if (stream_.avail_in == 0) return false;
    inflateReset(&stream_);
    return true;
  }

  const std::filesystem::path& path_;
  z_stream stream_ = {};
  bool member_ended_ = false;
  std::string buffer_ = std::string(kChunk, '\0');
};

/// Cuts a stream of bytes into the lines of a TextFile.
class LineCutter {
 public:
  LineCutter(TextFile& text, Sha256* digest) : text_(text), digest_(digest) {}

  void feed(std::string_view bytes) {
    if (digest_ != nullptr) digest_->update(bytes);
    text_.bytes += static_cast<int64_t>(bytes.size());
    for (size_t end = bytes.find('\n'); end != bytes.npos; end = bytes.find('\n')) {
      line_ += bytes.substr(0, end);
      if (line_.ends_with('\r')) {
        line_.pop_back();
        ++text_.carriage_returns;
      }
      push();
      bytes.remove_prefix(end + 1);
    }
    line_ += bytes;
  }

  void finish() {
    remove_byte_order_mark();
    text_.ends_with_newline = line_.empty();
    if (!line_.empty()) push();
  }

 private:
  void push() {
    remove_byte_order_mark();
    text_.lines.push_back(std::move(line_));
    line_.clear();
  }

  void remove_byte_order_mark() {
    if (!text_.lines.empty() || !line_.starts_with(kByteOrderMark)) return;
    text_.byte_order_mark = true;
    line_.erase(0, kByteOrderMark.size());
  }

  TextFile& text_;
  Sha256* digest_;
  std::string line_;
};

}  // namespace

TextFile read_lines(const std::filesystem::path& path, Sha256* digest) {
  TextFile text;
  RawReader reader(path);
  LineCutter cutter(text, digest);
  std::string_view bytes = reader.next();
  text.gzip = bytes.starts_with(kGzipMagic);
  if (text.gzip) {
    Inflater inflater(path);
    for (; !bytes.empty(); bytes = reader.next()) {
      inflater.feed(bytes, [&](std::string_view plain) { cutter.feed(plain); });
    }
    inflater.finish();
  } else {
    for (; !bytes.empty(); bytes = reader.next()) cutter.feed(bytes);
  }
  cutter.finish();
  return text;
}

}  // namespace headwise::data
