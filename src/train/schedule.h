// The learning rate as a pure function of the update number.
#pragma once

#include <cstdint>

#include "src/config/config.h"

namespace headwise::train {

/// Rate of update `step` (1-based). Rises linearly over `warmup` updates to `learning_rate`, then
/// inverse_sqrt: falls as sqrt(warmup / step); cosine, linear: reach final_factor at `horizon` and
/// stay there; constant: stays. Where a run stops never enters.
double learning_rate(const config::ScheduleConfig& schedule, int64_t step);

}  // namespace headwise::train
