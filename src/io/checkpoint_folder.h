// Checkpoints as folders: written aside, synced, published by one rename, checked when read.
// Torch-free: what the files hold is the caller's business.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace headwise::io {

inline constexpr int kFormatVersion = 1;

/// Files of a checkpoint, in `DIR/step-N/`.
inline constexpr const char* kModelFile = "model.safetensors";  // weights to translate with
inline constexpr const char* kTrainStateFile =
    "train_state.safetensors";                           // what resuming needs besides
inline constexpr const char* kStateFile = "state.json";  // counters, data position, history
inline constexpr const char* kConfigFile = "config.toml";
inline constexpr const char* kSourceSubwordFile = "source.spm";
inline constexpr const char* kTargetSubwordFile = "target.spm";  // absent when joint
inline constexpr const char* kManifestFile =
    "manifest.json";  // format_version, SHA-256 and size of each file

/// Publishes `run/name` (say "step-500"): makes a hidden temporary folder beside it, calls `fill`
/// with it, adds the manifest, syncs every file and folder, renames. On any failure the temporary
/// folder is removed, everything older is untouched. @throws UserError naming the path and the
/// reason (disk full, read-only …).
void publish(const std::filesystem::path& run, const std::string& name,
             const std::function<void(const std::filesystem::path& folder)>& fill);

/// Points `run/link` ("last", "best") at `run/name` by an atomic rename of a relative symbolic
/// link.
void point(const std::filesystem::path& run, const std::string& link, const std::string& name);

/// Checks manifest, format_version, presence, size and SHA-256 of every file.
/// @throws UserError naming the file and what is wrong with it.
void verify(const std::filesystem::path& checkpoint);

/// step-N folders of a run in numeric order (unverified).
std::vector<int64_t> steps(const std::filesystem::path& run);

/// The newest checkpoint that verifies; `warn` hears about each damaged one passed over.
std::optional<int64_t> newest_whole(const std::filesystem::path& run,
                                    const std::function<void(const std::string&)>& warn);

/// Removes step-N folders beyond the newest `keep`, never what "best", "last" point at, and
/// left-over temporary folders. Missing files are tolerated; nothing else in the folder is touched.
void prune(const std::filesystem::path& run, int64_t keep);

/// `headwise translate DIR|CHECKPOINT`: the checkpoint itself, or DIR/best, DIR/last, the newest.
/// @throws UserError if there is none.
std::filesystem::path resolve_checkpoint(const std::filesystem::path& path);

/// Lower-case hex SHA-256 of a file.
std::string sha256_of_file(const std::filesystem::path& path);

/// Holds an exclusive lock on a run folder (DIR/.lock, flock) for its lifetime.
/// @throws UserError if another process holds it.
class RunLock {
 public:
  explicit RunLock(const std::filesystem::path& run);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int descriptor_ = -1;
};

}  // namespace headwise::io
