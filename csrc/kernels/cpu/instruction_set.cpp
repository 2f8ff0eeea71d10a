#include "csrc/kernels/cpu/instruction_set.h"

#include <atomic>
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

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise::kernels::cpu {

HWY_EXPORT(target_name);

namespace {

// Highway has no target of this name: it is AVX3 with products of BFloat16 pairs.
constexpr const char* kPairs = "AVX3_BF16";

bool has_pairs() {
#if defined(__x86_64__)
  return (hwy::SupportedTargets() & HWY_AVX3) != 0 && __builtin_cpu_supports("avx512bf16") > 0;
#else
  return false;
#endif
}

std::atomic<bool> uses_pairs = has_pairs();

}  // namespace

std::vector<std::string> instruction_sets() {
  std::vector<std::string> names;
  if (has_pairs()) names.emplace_back(kPairs);
  // Better ones have lower bits.
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    names.emplace_back(hwy::TargetName(target));
  }
  return names;
}

void use_instruction_set(const std::string& name) {
  hwy::SetSupportedTargetsForTest(0);
  const bool pairs = has_pairs() && (name == kPairs || name.empty());
  std::string known;
  int64_t chosen = pairs ? HWY_AVX3 : 0;
  for (const std::string& set : instruction_sets()) {
    known += (known.empty() ? "" : ", ") + set;
  }
  for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
    if (name == hwy::TargetName(target)) chosen = target;
  }
  if (chosen == 0 && !name.empty()) {
    throw std::invalid_argument("instruction set \"" + name +
                                "\" (HEADWISE_INSTRUCTION_SET) was asked for; this machine and "
                                "build have " +
                                known);
  }
  uses_pairs = pairs;
  hwy::SetSupportedTargetsForTest(chosen);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

namespace {

void read_environment() {
  static const bool read = [] {
    const char* wanted = std::getenv("HEADWISE_INSTRUCTION_SET");
    if (wanted != nullptr && *wanted != '\0') use_instruction_set(wanted);
    return true;
  }();
  static_cast<void>(read);
}

}  // namespace

bool multiplies_pairs() {
  read_environment();
  return uses_pairs.load(std::memory_order_relaxed);
}

const char* instruction_set() {
  return multiplies_pairs() ? kPairs : HWY_DYNAMIC_DISPATCH(target_name)();
}

}  // namespace headwise::kernels::cpu
#endif  // HWY_ONCE
