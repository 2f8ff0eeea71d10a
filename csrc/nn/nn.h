// The attention module and all that belongs to it; C++ users include it as headwise/nn.h.
#pragma once

#include "csrc/nn/key_value_cache.h"
#include "csrc/nn/multi_head_attention.h"
#include "csrc/nn/options.h"
#include "csrc/nn/rotary.h"
