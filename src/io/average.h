// The mean of several checkpoints' weights, as a checkpoint of its own.
#pragma once

#include <filesystem>
#include <vector>

namespace headwise::io {

/// Publishes `output`: the mean (in double) of the weights of `checkpoints`, with the configuration
/// and subword models of the last one. It translates; it holds no optimiser state to resume from.
/// @throws UserError if there are none, one is damaged, or models or subword models differ.
void write_average(const std::vector<std::filesystem::path>& checkpoints,
                   const std::filesystem::path& output);

}  // namespace headwise::io
