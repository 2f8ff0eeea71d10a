// From a configuration and a folder to a run that is ready for its next update.
#pragma once

#include <filesystem>
#include <optional>

#include "src/config/load.h"
#include "src/train/run_parts.h"

namespace headwise::train {

struct Prepared {
  RunParts parts;
  std::optional<std::filesystem::path> checkpoint;  // to resume from
};

/// Reads text, makes or reads subword models, encodes, builds the model; with `resume` takes the
/// newest whole checkpoint of `folder`, and starts from nothing when there is none yet. Saves the
/// resolved configuration as folder/config.toml.
/// @throws UserError for unfit text, for a folder that already holds a run when not resuming, and
/// for a
///   resume that asks for another model, subword model or training text.
Prepared prepare(const config::Resolved& settings, const std::filesystem::path& folder,
                 bool resume);

}  // namespace headwise::train
