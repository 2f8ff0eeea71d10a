#include "csrc/kernels/cpu/instruction_set.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "csrc/kernels/cpu/instruction_set.cpp"
#include <hwy/foreach_target.h>
// Highway's headers must follow foreach_target.h.
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

const char* target_name() { return hwy::TargetName(HWY_TARGET); }

bool target_multiplies_pairs() {
#if HWY_TARGET <= HWY_AVX3
  return __builtin_cpu_supports("avx512bf16") != 0;
#else
  return false;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise::kernels::cpu {

HWY_EXPORT(target_name);
HWY_EXPORT(target_multiplies_pairs);

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  // Better ones have lower bits.
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    names.emplace_back(hwy::TargetName(target));
  }
  return names;
}

void use_instruction_set(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  std::string known;
  int64_t chosen = 0;
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name == hwy::TargetName(target)) chosen = target;
    known += std::string(known.empty() ? "" : ", ") + hwy::TargetName(target);
  }
  if (chosen == 0 && !name.empty()) {
    throw std::invalid_argument("instruction set \"" + name +
                                "\" (HEADWISE_INSTRUCTION_SET) was asked for; this machine and "
                                "build have " +
                                known);
  }
  hwy::SetSupportedTargetsForTest(chosen);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

const char* instruction_set() {
  static const bool read = [] {
    const char* wanted = std::getenv("HEADWISE_INSTRUCTION_SET");
    if (wanted != nullptr && *wanted != '\0') use_instruction_set(wanted);
    return true;
  }();
  static_cast<void>(read);
  return HWY_DYNAMIC_DISPATCH(target_name)();
}

bool multiplies_pairs() {
  instruction_set();  // reads the environment
  return HWY_DYNAMIC_DISPATCH(target_multiplies_pairs)();
}

}  // namespace headwise::kernels::cpu
#endif  // HWY_ONCE
