// manifest.json: what a whole checkpoint consists of.
#pragma once

#include <filesystem>

namespace headwise::io {

/// Lists every file of `folder` with size and SHA-256 in its manifest.json.
/// @throws UserError naming a path; std::logic_error if the folder holds anything but files.
void write_manifest(const std::filesystem::path& folder);

}  // namespace headwise::io
