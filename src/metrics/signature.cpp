#include "src/metrics/signature.h"

namespace headwise::metrics {

namespace {

constexpr std::string_view kReferences = "nrefs:1|";

}  // namespace

std::string signature_of(const Options& options, std::string_view details) {
  return std::string(kReferences)
      .append(options.lowercase ? "case:lc|" : "case:mixed|")
      .append(details)
      .append("|version:headwise-" HEADWISE_VERSION);
}

std::string signature_with_bootstrap(const std::string& signature, int samples, uint64_t seed) {
  return std::string(signature).insert(
      kReferences.size(), "bs:" + std::to_string(samples) + "|seed:" + std::to_string(seed) + "|");
}

}  // namespace headwise::metrics
