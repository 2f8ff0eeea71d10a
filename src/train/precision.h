// What products of training are computed in.
#pragma once

#include <optional>
#include <string>

#include "src/config/config.h"

namespace headwise::train {

struct Precision {
  bool bfloat16 = false;  // else float32
  std::string reason;     // for the log
};

/// `begun`: whether the run that is resumed computes in bfloat16; "auto" keeps what it began with.
/// Else "auto" takes a product of each kind, and bfloat16 if that is clearly faster here.
Precision choose_precision(const config::Config& config, std::optional<bool> begun);

}  // namespace headwise::train
