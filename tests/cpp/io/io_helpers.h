// Shared by the tests of this folder.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "src/config/error.h"
#include "src/io/checkpoint_folder.h"

namespace headwise::io {

/// A folder of its own, gone afterwards.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::filesystem::path& parent = testing::TempDir()) {
    static std::atomic<int> count = 0;
    path_ = parent / text_of("headwise_io_", ::getpid(), "_", count++);
    std::filesystem::create_directories(path_);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  operator const std::filesystem::path&() const { return path_; }  // NOLINT: stands for its path

 private:
  std::filesystem::path path_;
};

inline void put(const std::filesystem::path& path, const std::string& bytes) {
  std::filesystem::remove(path);  // some file systems flush a file that is cut and written again
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string get(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The message of the UserError that `call` ends in; "" when it does not.
template <typename Call>
std::string refusal(const Call& call) {
  try {
    call();
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

/// Publishes `run/name` with two files whose bytes depend on `seed`.
inline void publish_example(const std::filesystem::path& run, const std::string& name, int seed) {
  publish(run, name, [&](const std::filesystem::path& folder) {
    std::string weights(1000, '\0');
    for (size_t i = 0; i < weights.size(); ++i) {
      weights[i] = static_cast<char>(i * 7 + static_cast<size_t>(seed));
    }
    put(folder / kModelFile, weights);
    put(folder / kStateFile, std::to_string(seed));
  });
}

inline void publish_step(const std::filesystem::path& run, int step) {
  publish_example(run, "step-" + std::to_string(step), step);
}

}  // namespace headwise::io
