// Putting a finished folder in the place of another one.
#pragma once

#include <filesystem>

namespace headwise::io {

enum class Exchange { kTry, kNever };

/// Renames the folder `fresh` to `target`. A `target` that exists is exchanged with it in one step
/// and removed afterwards, so that there is always a whole one. Where the file system cannot
/// exchange (or with kNever), the old one waits as `.replaced-NAME` between two renames;
/// restore_replaced() brings it back when the process died there.
void replace_folder(const std::filesystem::path& fresh, const std::filesystem::path& target,
                    Exchange exchange = Exchange::kTry);

/// After a crash: every `.replaced-NAME` of the run becomes NAME again, or goes when NAME is there.
void restore_replaced(const std::filesystem::path& run);

}  // namespace headwise::io
