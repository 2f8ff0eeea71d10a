// Full disks, read-only places, kill -9: what was whole stays whole.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstring>
#include <iostream>
#include <random>
#include <stdexcept>
#include <thread>

#include "src/io/file.h"
#include "src/io/safetensors.h"
#include "tests/cpp/io/io_helpers.h"

namespace headwise::io {
namespace {

namespace fs = std::filesystem;

/// Publishes a step whose weights take a megabyte; returns the error, if any.
std::string publish_megabyte(const fs::path& run, int step) {
  const std::vector<float> weights(1 << 18, static_cast<float>(step));
  return refusal([&] {
    publish(run, "step-" + std::to_string(step), [&](const fs::path& folder) {
      write_safetensors(folder / kModelFile,
                        {{"w", {Dtype::kF32, {1 << 18}, std::as_bytes(std::span(weights))}}});
      write_file(folder / kStateFile, "{}");
    });
  });
}

/// After a failed publish: step-1 whole, nothing else.
void expect_only_the_first(const fs::path& run) {
  EXPECT_EQ(steps(run), std::vector<int64_t>{1});
  EXPECT_NO_THROW(verify(run / "step-1"));
  for (const auto& entry : fs::directory_iterator(run)) {
    EXPECT_EQ(entry.path().filename(), "step-1") << "left over";
  }
}

/// Mounts for the life of the object, in a mount of its own; `good` says whether that was allowed.
class Mount {
 public:
  Mount(const fs::path& place, const char* type, unsigned long flags, const char* options)
      : place_(place), good(::mount("headwise", place.c_str(), type, flags, options) == 0) {}
  ~Mount() {
    if (good) ::umount2(place_.c_str(), MNT_DETACH);
  }
  Mount(const Mount&) = delete;
  Mount& operator=(const Mount&) = delete;

 private:
  fs::path place_;

 public:
  const bool good;
};

TEST(Failure, FullDiskLeavesTheOldCheckpointWhole) {
  const TemporaryFolder run;
  const Mount small(run, "tmpfs", 0, "size=1536k");
  if (!small.good) GTEST_SKIP() << "no tmpfs may be mounted here: " << std::strerror(errno);
  ASSERT_EQ(publish_megabyte(run, 1), "");
  const std::string message = publish_megabyte(run, 2);
  EXPECT_TRUE(contains(message, "model.safetensors: cannot write: No space left on device"))
      << message;
  expect_only_the_first(run);
}

// The same without a mount: the system refuses to let a file grow beyond a limit.
TEST(Failure, FileSizeLimitLeavesTheOldCheckpointWhole) {
  const TemporaryFolder run;
  ASSERT_EQ(publish_megabyte(run, 1), "");
  rlimit old_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &old_limit), 0);
  const auto old_handler = ::signal(SIGXFSZ, SIG_IGN);
  const rlimit limit = {1 << 19, old_limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  const std::string message = publish_megabyte(run, 2);
  ::setrlimit(RLIMIT_FSIZE, &old_limit);
  ::signal(SIGXFSZ, old_handler);
  EXPECT_TRUE(contains(message, "model.safetensors: cannot write: File too large")) << message;
  expect_only_the_first(run);
}

TEST(Failure, ReadOnlyPlaceLeavesTheOldCheckpointWhole) {
  const TemporaryFolder run;
  ASSERT_EQ(publish_megabyte(run, 1), "");
  std::string message, reason;
  if (::geteuid() != 0) {  // modes bind everyone but root
    fs::permissions(run, fs::perms::owner_read | fs::perms::owner_exec);
    message = publish_megabyte(run, 2);
    fs::permissions(run, fs::perms::owner_all);
    reason = "Permission denied";
  } else {
    const TemporaryFolder place;
    if (::mount(static_cast<const fs::path&>(run).c_str(),
                static_cast<const fs::path&>(place).c_str(), nullptr, MS_BIND, nullptr) != 0) {
      GTEST_SKIP() << "no folder may be mounted read-only here: " << std::strerror(errno);
    }
    const bool good = ::mount(nullptr, static_cast<const fs::path&>(place).c_str(), nullptr,
                              MS_BIND | MS_REMOUNT | MS_RDONLY, nullptr) == 0;
    if (good) message = publish_megabyte(place, 2);
    ::umount2(static_cast<const fs::path&>(place).c_str(), MNT_DETACH);
    if (!good) GTEST_SKIP() << "no folder may be mounted read-only here";
    reason = "Read-only file system";
  }
  EXPECT_TRUE(contains(message, "cannot create the folder: " + reason)) << message;
  expect_only_the_first(run);
}

TEST(Failure, AFileInPlaceOfTheRunOrTheStep) {
  const TemporaryFolder folder;
  put(folder / "file", "keep me");
  EXPECT_TRUE(contains(publish_megabyte(folder / "file", 1), "file: cannot create the folder: "));
  EXPECT_TRUE(
      contains(publish_megabyte("/proc/none", 1), "/proc/none: cannot create the folder: "));
  put(folder / "step-1", "keep me");
  EXPECT_TRUE(contains(publish_megabyte(folder, 1), "step-1: cannot publish: Not a directory"));
  EXPECT_EQ(get(folder / "step-1"), "keep me");
  EXPECT_EQ(get(folder / "file"), "keep me");
}

TEST(Failure, AnExceptionWhileFillingLeavesNothing) {
  const TemporaryFolder run;
  publish_step(run, 1);
  const auto throwing = [](const fs::path& folder) {
    put(folder / kModelFile, "half");
    throw std::runtime_error("mine");
  };
  EXPECT_THROW(publish(run, "step-2", throwing), std::runtime_error);
  EXPECT_THROW(publish(run, "step-1", throwing), std::runtime_error);
  const auto with_folder = [](const fs::path& folder) { fs::create_directory(folder / "more"); };
  EXPECT_THROW(publish(run, "step-2", with_folder), std::logic_error);
  for (const char* name : {"", "a/b", "..", ".hidden"}) {
    EXPECT_THROW(publish(run, name, [](const fs::path&) {}), std::invalid_argument) << name;
  }
  expect_only_the_first(run);
}

/// Saves for ever, as a trainer does, every step twice, as after a fall-back.
[[noreturn]] void save_for_ever(const fs::path& run, int first) {
  for (int step = first;; ++step) {
    publish_step(run, step);
    point(run, "last", "step-" + std::to_string(step));
    publish_step(run, step);
    prune(run, 2);
  }
}

TEST(Failure, KilledAtAnyMomentThereIsAWholeCheckpoint) {
  // In memory where that is possible: more saves per second, so more moments to be killed at.
  const TemporaryFolder run(fs::is_directory("/dev/shm") ? "/dev/shm" : testing::TempDir());
  publish_step(run, 1);
  std::mt19937 random(3);
  int64_t newest = 1;
  for (int kill = 0; kill < 80; ++kill) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      try {
        save_for_ever(run, static_cast<int>(newest) + 1);
      } catch (...) {
        ::_exit(1);
      }
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    ::kill(child, SIGKILL);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the saving itself failed";

    const auto found = newest_whole(run, [&](const std::string& text) {
      ADD_FAILURE() << "a damaged checkpoint under its final name: " << text;
    });
    ASSERT_TRUE(found.has_value());
    ASSERT_GE(*found, newest) << "saved progress was lost";
    newest = *found;
    EXPECT_EQ(get(run / text_of("step-", newest) / kStateFile), std::to_string(newest));
    if (fs::is_symlink(fs::symlink_status(run / "last"))) {
      EXPECT_NO_THROW(verify(run / "last"));
    }
    prune(run, 2);  // what the next process does
    for (const auto& entry : fs::directory_iterator(run)) {
      EXPECT_NE(entry.path().filename().string().rfind(".tmp-", 0), 0U) << entry.path();
    }
  }
  EXPECT_GT(newest, 5) << "the loop never came to save";
  std::cout << "80 kills, " << newest << " steps saved\n";
}

}  // namespace
}  // namespace headwise::io
