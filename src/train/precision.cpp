#include "src/train/precision.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <chrono>

#include "csrc/ops/linear_bfloat16.h"
#include "src/config/error.h"
#include "src/config/format.h"
#include "src/config/layer_shape.h"

namespace headwise::train {
namespace {

/// The best of a few times, in seconds.
template <typename Work>
double best_time(const Work& work) {
  double best = 1e9;
  for (int i = 0; i < 7; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    work();
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    best = std::min(best, time.count());
  }
  return best;
}

/// How much faster a product of bfloat16 is than one of float32, conversions included.
double measured_speedup() {
  const at::NoGradGuard no_grad;
  const at::Tensor x = at::zeros({768, 128}), weight = at::zeros({384, 128});
  const double float32 = best_time([&] { at::linear(x, weight); });
  const double bfloat16 = best_time([&] { linear_bfloat16(x, {weight}, {}); });
  return float32 / bfloat16;
}

std::string with_one_decimal(double x) {
  const int64_t tenths = int64_t(x * 10 + 0.5);
  return text_of(tenths / 10, ".", tenths % 10);
}

}  // namespace

Precision choose_precision(const config::Config& config, std::optional<bool> begun) {
  const bool has_products = has_bfloat16_products();
  const char* const none = "this CPU has no AVX512_BF16";
  switch (config.train.precision) {
    case config::Precision::kFloat32:
      return {false, "as asked for"};
    case config::Precision::kBFloat16:
      return {true, has_products ? "as asked for"
                                 : text_of("as asked for; ", none, ", so it is no faster")};
    case config::Precision::kAuto:
      break;
  }
  if (begun) return {*begun, "as the run began"};
  const int64_t width = config::width_unfit_for_bfloat16(config.model);
  if (width != 0) {
    return {false, text_of("bf16 needs widths that are multiples of ",
                           config::kBFloat16WidthMultiple, ", and one is ", width)};
  }
  if (!has_products) return {false, none};
  constexpr double kClearly = 1.25;
  const double speedup = measured_speedup();
  return {speedup >= kClearly,
          text_of("this CPU has AVX512_BF16, and a product is ", with_one_decimal(speedup),
                  " times as fast with it as in fp32")};
}

}  // namespace headwise::train
