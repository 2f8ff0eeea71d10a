// Which of the compiled instruction sets runs.
#pragma once

#include <string>
#include <vector>

namespace headwise::kernels::cpu {

/// Name of the instruction set in use: "AVX3_BF16" (AVX-512 with products of BFloat16 pairs),
/// "AVX3" (AVX-512), "AVX2", "SSE4", … The best one of the machine, unless the environment variable
/// HEADWISE_INSTRUCTION_SET names another, read once.
/// @throws std::invalid_argument if it names one that this machine or build lacks.
const char* instruction_set();

/// Whether this machine and the instruction set in use multiply pairs of bfloat16 (AVX512_BF16).
bool multiplies_pairs();

/// Those that were compiled and that this machine has, best first.
std::vector<std::string> instruction_sets();

/// From now on `name`; "" is the best one again. For tests and measurements: not while kernels run.
/// @throws std::invalid_argument as above.
void use_instruction_set(const std::string& name);

}  // namespace headwise::kernels::cpu
