// Publishing, links, pruning, finding: the ordinary life of a run folder.
#include "src/io/checkpoint_folder.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "src/io/replace.h"
#include "tests/cpp/io/io_helpers.h"

namespace headwise::io {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

using Names = std::vector<std::string>;

/// What the system's own sha256sum says.
std::string sha256sum(const fs::path& path) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(
      ::popen(("sha256sum < '" + path.string() + "'").c_str(), "r"), ::pclose);
  std::array<char, 65> text{};
  return std::fgets(text.data(), text.size(), pipe.get()) != nullptr ? text.data() : "";
}

/// The id of a process that has ended.
pid_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  return child;
}

TEST(Checkpoint, Sha256IsThatOfSha256sum) {
  const TemporaryFolder folder;
  for (const size_t size :
       {0, 1, 55, 56, 64, 1000, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 3000000}) {
    std::string bytes(size, '\0');
    for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * i >> 3);
    put(folder / "x", bytes);
    const std::string expected = sha256sum(folder / "x");
    ASSERT_EQ(expected.size(), 64U) << "sha256sum is part of coreutils";
    EXPECT_EQ(sha256_of_file(folder / "x"), expected) << size;
  }
}

TEST(Checkpoint, PublishedFolderIsWholeAndDescribesItself) {
  const TemporaryFolder run;
  const fs::path deeper = run / "new/run";  // made by publish
  publish_step(deeper, 5);
  EXPECT_EQ(names_in(deeper), Names{"step-5"});
  EXPECT_EQ(names_in(deeper / "step-5"),
            (Names{"manifest.json", "model.safetensors", "state.json"}));
  EXPECT_EQ(get(deeper / "step-5" / kStateFile), "5");
  EXPECT_NO_THROW(verify(deeper / "step-5"));
  const auto manifest = nlohmann::json::parse(get(deeper / "step-5/manifest.json"));
  EXPECT_EQ(manifest["format_version"], kFormatVersion);
  EXPECT_TRUE(manifest["headwise"].is_string());
  EXPECT_EQ(manifest["files"].size(), 2U);
  EXPECT_EQ(manifest["files"][kModelFile]["bytes"], 1000);
  EXPECT_EQ(manifest["files"][kModelFile]["sha256"], sha256sum(deeper / "step-5" / kModelFile));
}

TEST(Checkpoint, SameStepAgainReplacesTheOldOne) {
  for (const Exchange exchange : {Exchange::kTry, Exchange::kNever}) {
    const TemporaryFolder run;
    publish_example(run, "step-5", 1);
    publish_example(run, "step-6", 2);
    replace_folder(run / "step-6", run / "step-5", exchange);
    EXPECT_EQ(names_in(run), Names{"step-5"});
    EXPECT_EQ(get(run / "step-5" / kStateFile), "2");
    EXPECT_NO_THROW(verify(run / "step-5"));
  }
  const TemporaryFolder run;
  publish_example(run, "step-5", 1);
  publish_example(run, "step-5", 2);
  EXPECT_EQ(names_in(run), Names{"step-5"});
  EXPECT_EQ(get(run / "step-5" / kStateFile), "2");
}

TEST(Checkpoint, AReplacementCutShortIsMendedUnderTheLock) {
  const TemporaryFolder run;
  publish_step(run, 5);
  publish_step(run, 6);
  fs::rename(run / "step-5", run / ".replaced-step-5");  // died between the two renames
  fs::create_directory(run / ".replaced-step-6");        // died after the second
  const RunLock lock(run);
  EXPECT_EQ(names_in(run), (Names{".lock", "step-5", "step-6"}));
  EXPECT_EQ(get(run / "step-5" / kStateFile), "5");
  EXPECT_NO_THROW(verify(run / "step-6"));
}

TEST(Checkpoint, PointIsARelativeLinkTurnedAtOnce) {
  const TemporaryFolder run;
  publish_step(run, 1);
  publish_step(run, 2);
  point(run, "last", "step-1");
  point(run, "last", "step-2");
  EXPECT_EQ(fs::read_symlink(run / "last"), "step-2");
  EXPECT_EQ(get(run / "last" / kStateFile), "2");
  EXPECT_EQ(names_in(run), (Names{"last", "step-1", "step-2"}));
  fs::create_directory(run / "best");
  EXPECT_TRUE(contains(refusal([&] { point(run, "best", "step-1"); }), "best: cannot replace"));
  EXPECT_EQ(names_in(run), (Names{"best", "last", "step-1", "step-2"})) << "nothing is left over";
}

TEST(Checkpoint, StepsAreNumbersNotText) {
  const TemporaryFolder run;
  EXPECT_TRUE(steps(run / "none").empty());
  for (const char* name :
       {"step-1000", "step-900", "step-0", "step-7", "step-007", "step--7", "step-", "step-9x",
        "step-9223372036854775807", "step-9223372036854775808", "average-3", "old-step-3"}) {
    fs::create_directory(run / name);
  }
  put(run / "step-8", "a file");
  fs::create_directory_symlink("step-7", run / "step-6");
  EXPECT_EQ(steps(run), (std::vector<int64_t>{0, 7, 900, 1000, 9223372036854775807}));
}

TEST(Checkpoint, PruneKeepsTheNewestAndWhatLinksNeed) {
  const TemporaryFolder run;
  for (const int step : {100, 200, 900, 1000, 1100}) publish_step(run, step);
  point(run, "best", "step-100");
  point(run, "last", "step-1100");
  prune(run, 2);
  EXPECT_EQ(names_in(run), (Names{"best", "last", "step-100", "step-1000", "step-1100"}));
  prune(run, 1);
  EXPECT_EQ(names_in(run), (Names{"best", "last", "step-100", "step-1100"}));
  publish_step(run, 1200);
  point(run, "best", "step-1200");
  prune(run, 1);  // last still points at 1100
  EXPECT_EQ(names_in(run), (Names{"best", "last", "step-1100", "step-1200"}));
  fs::remove_all(run / "step-1100");  // a user's hand; last dangles
  publish_step(run, 1300);
  prune(run, 1);
  EXPECT_EQ(names_in(run), (Names{"best", "last", "step-1200", "step-1300"}));
}

TEST(Checkpoint, PruneRemovesOnlyItsOwn) {
  const TemporaryFolder run;
  publish_step(run, 1);
  publish_step(run, 2);
  const std::string dead = std::to_string(dead_process());
  const Names others = {".tmp-notes", ".tmp-step-9-x", "average-2", "metrics.jsonl", "step-1.bak"};
  for (const std::string& name : others) fs::create_directory(run / name);
  const std::string alive = ".tmp-step-3-" + std::to_string(::getppid());
  fs::create_directory(run / alive);
  fs::create_directory(run / (".tmp-step-3-" + dead));
  fs::create_symlink("step-1", run / (".tmp-last-" + dead));
  fs::create_directory(run / (".tmp-step-4-" + std::to_string(::getpid())));
  prune(run, 1);
  Names expected = others;
  expected.push_back(alive);
  expected.push_back("step-2");
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(names_in(run), expected);
  EXPECT_NO_THROW(prune(run / "none", 1));
}

TEST(Checkpoint, ResolvePrefersTheFolderThenBestThenLastThenNewest) {
  const TemporaryFolder run;
  EXPECT_TRUE(contains(refusal([&] { resolve_checkpoint(run); }), "found no checkpoint"));
  EXPECT_TRUE(
      contains(refusal([&] { resolve_checkpoint(run / "none"); }), "none: cannot open: No such"));
  put(run / "file", "");
  EXPECT_TRUE(contains(refusal([&] { resolve_checkpoint(run / "file"); }), "file"));
  for (const int step : {9, 10, 100}) publish_step(run, step);
  fs::create_directory(run / "step-200");  // nothing in it
  EXPECT_EQ(resolve_checkpoint(run), run / "step-100");
  point(run, "last", "step-10");
  EXPECT_EQ(resolve_checkpoint(run), run / "step-10");
  point(run, "best", "step-9");
  EXPECT_EQ(resolve_checkpoint(run), run / "step-9");
  EXPECT_EQ(resolve_checkpoint(run / "last"), run / "step-10") << "links are followed at once";
  EXPECT_EQ(resolve_checkpoint(run / "step-100"), run / "step-100");
  fs::remove_all(run / "step-9");  // best dangles
  EXPECT_EQ(resolve_checkpoint(run), run / "step-10");
  publish_example(run, "average-3", 3);
  EXPECT_EQ(resolve_checkpoint(run / "average-3"), run / "average-3");
  // A copy made by a tool that follows links.
  const TemporaryFolder copy;
  fs::copy(run / "step-10", copy / "best", fs::copy_options::recursive);
  EXPECT_EQ(resolve_checkpoint(copy), copy / "best");
}

TEST(Checkpoint, OneProcessPerRun) {
  const TemporaryFolder run;
  {
    const RunLock lock(run / "out");
    EXPECT_TRUE(contains(refusal([&] { RunLock again(run / "out"); }),
                         "out: another process is writing to this folder"));
    RunLock other(run / "other");
  }
  EXPECT_EQ(refusal([&] { RunLock again(run / "out"); }), "");
  put(run / "file", "");
  EXPECT_TRUE(
      contains(refusal([&] { RunLock lock(run / "file"); }), "file: cannot create the folder"));
}

}  // namespace
}  // namespace headwise::io
