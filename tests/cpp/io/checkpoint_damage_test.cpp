// Whatever happens to the files of a checkpoint, verify names the file, and the run falls back.
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <regex>

#include "tests/cpp/io/io_helpers.h"

namespace headwise::io {
namespace {

namespace fs = std::filesystem;
using Edit = std::function<void(nlohmann::json& manifest)>;

/// What verify says about an example checkpoint after `damage`.
std::string after(const std::function<void(const fs::path& folder)>& damage) {
  const TemporaryFolder run;
  publish_step(run, 1);
  publish_step(run, 2);
  damage(run / "step-2");
  const std::string message = refusal([&] { verify(run / "step-2"); });
  std::string warning;
  const auto found = newest_whole(run, [&](const std::string& text) { warning += text; });
  EXPECT_EQ(found, message.empty() ? 2 : 1) << message;
  EXPECT_EQ(warning, message.empty() ? "" : "step-2 is passed over: " + message);
  return message;
}

std::string after_edit(const Edit& edit) {
  return after([&](const fs::path& folder) {
    auto manifest = nlohmann::json::parse(get(folder / kManifestFile));
    edit(manifest);
    put(folder / kManifestFile, manifest.dump());
  });
}

TEST(Damage, EachFileTruncatedFlippedGrownOrGone) {
  EXPECT_EQ(after([](const fs::path&) {}), "");
  for (const std::string name : {kModelFile, kStateFile, kManifestFile}) {
    const auto damaged = [&](const std::function<void(std::string&)>& change) {
      const std::string message = after([&](const fs::path& folder) {
        std::string bytes = get(folder / name);
        change(bytes);
        put(folder / name, bytes);
      });
      EXPECT_TRUE(contains(message, "step-2/" + name)) << message;
      EXPECT_TRUE(contains(message, "damaged")) << message;
    };
    damaged([](std::string& bytes) { bytes.clear(); });
    damaged([](std::string& bytes) { bytes.resize(bytes.size() - 1 - (bytes.back() == '\n')); });
    if (name != kStateFile) damaged([](std::string& bytes) { bytes.resize(100); });
    damaged([](std::string& bytes) { bytes += 'x'; });
    damaged([](std::string& bytes) { bytes[0] ^= 1; });
    const std::string gone = after([&](const fs::path& folder) { fs::remove(folder / name); });
    EXPECT_TRUE(contains(gone, "step-2/" + name + ": cannot open: No such file")) << gone;
    const std::string folder_instead = after([&](const fs::path& folder) {
      fs::remove(folder / name);
      fs::create_directory(folder / name);
    });
    EXPECT_TRUE(contains(folder_instead, name + ": cannot read: Is a directory")) << folder_instead;
  }
}

TEST(Damage, EveryFlippedBitOfTheWeightsIsSeen) {
  const TemporaryFolder run;
  publish_step(run, 2);
  const std::string bytes = get(run / "step-2" / kModelFile);
  for (size_t bit = 0; bit < bytes.size() * 8; bit += 97) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    put(run / "step-2" / kModelFile, flipped);
    EXPECT_TRUE(contains(refusal([&] { verify(run / "step-2"); }), "SHA-256")) << bit;
  }
}

// A flipped byte of the manifest is seen, or it stood where nothing is decided.
TEST(Damage, AFlippedByteOfTheManifestNeverChangesItsMeaning) {
  const TemporaryFolder run;
  publish_step(run, 2);
  const std::string bytes = get(run / "step-2" / kManifestFile);
  const auto whole = nlohmann::json::parse(bytes);
  for (size_t i = 0; i < bytes.size(); ++i) {
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ 4);
    put(run / "step-2" / kManifestFile, flipped);
    if (!refusal([&] { verify(run / "step-2"); }).empty()) continue;
    const auto accepted = nlohmann::json::parse(flipped);
    EXPECT_EQ(accepted["files"], whole["files"]) << i;
    EXPECT_EQ(accepted["format_version"], whole["format_version"]) << i;
  }
}

TEST(Damage, SwappedFilesAreSeen) {
  const std::string message = after([](const fs::path& folder) {
    fs::rename(folder / kModelFile, folder / "aside");
    fs::rename(folder / kStateFile, folder / kModelFile);
    fs::rename(folder / "aside", folder / kStateFile);
  });
  EXPECT_TRUE(contains(message, "damaged: found ")) << message;
  const std::string of_another_step = after([](const fs::path& folder) {
    fs::copy_file(folder.parent_path() / "step-1" / kModelFile, folder / kModelFile,
                  fs::copy_options::overwrite_existing);
  });
  EXPECT_TRUE(contains(of_another_step, "step-2/model.safetensors: damaged: its bytes are not"));
}

TEST(Damage, ManifestThatMakesNoSense) {
  const struct {
    Edit edit;
    std::string reason;
  } cases[] = {
      {[](auto& m) { m["format_version"] = kFormatVersion + 1; },
       text_of("found format_version ", kFormatVersion + 1, "; this Headwise reads ",
               kFormatVersion, ": a newer one has written it")},
      {[](auto& m) { m["format_version"] = 0; }, "found format_version 0; this Headwise reads"},
      {[](auto& m) { m["format_version"] = "1"; }, "found no format_version"},
      {[](auto& m) { m["format_version"] = 1.5; }, "found no format_version"},
      {[](auto& m) { m.erase("format_version"); }, "found no format_version"},
      {[](auto& m) { m = nlohmann::json::array(); }, "found no format_version"},
      {[](auto& m) { m.erase("files"); }, "lists no files"},
      {[](auto& m) { m["files"] = nlohmann::json::object(); }, "lists no files"},
      {[](auto& m) { m["files"] = nlohmann::json::array({1}); }, "lists no files"},
      {[](auto& m) { m["files"][kModelFile] = 3; }, "needs bytes and sha256"},
      {[](auto& m) { m["files"][kModelFile].erase("sha256"); }, "needs bytes and sha256"},
      {[](auto& m) { m["files"][kModelFile]["bytes"] = -1; }, "needs bytes and sha256"},
      {[](auto& m) { m["files"][kModelFile]["bytes"] = 999; }, "its manifest says 999"},
      {[](auto& m) { m["files"]["more"] = m["files"][kModelFile]; }, "more: cannot open"},
      {[](auto& m) { m["files"]["../step-1/state.json"] = m["files"][kStateFile]; },
       "is not a file of this folder"},
      {[](auto& m) { m["files"]["/etc/hostname"] = m["files"][kStateFile]; },
       "is not a file of this folder"},
      {[](auto& m) { m["files"][".."] = m["files"][kStateFile]; }, "is not a file of this folder"},
      {[](auto& m) { m["files"][""] = m["files"][kStateFile]; }, "is not a file of this folder"},
  };
  for (const auto& c : cases) {
    const std::string message = after_edit(c.edit);
    EXPECT_TRUE(contains(message, "step-2/")) << message;
    EXPECT_TRUE(contains(message, c.reason)) << c.reason << "\ngot: " << message;
  }
  EXPECT_TRUE(contains(after([](const fs::path& f) { put(f / kManifestFile, "{\"format"); }),
                       "manifest.json: damaged: this is not JSON"));
}

TEST(Damage, NothingWholeIsNothingFound) {
  const TemporaryFolder run;
  int warnings = 0;
  const auto count = [&](const std::string&) { ++warnings; };
  EXPECT_EQ(newest_whole(run, count), std::nullopt);
  EXPECT_EQ(newest_whole(run / "none", count), std::nullopt);
  for (const int step : {3, 20, 100}) {
    publish_step(run, step);
    fs::remove(run / text_of("step-", step) / kStateFile);
  }
  EXPECT_EQ(newest_whole(run, count), std::nullopt);
  EXPECT_EQ(warnings, 3);
}

}  // namespace
}  // namespace headwise::io
