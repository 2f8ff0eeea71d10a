// The number types a kernel reads and writes, and the one it computes in: float for the 16-bit
// types and float, double for double. Host and device share the conversions.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "csrc/kernels/host_device.h"

namespace headwise::kernels {

struct BFloat16 {
  uint16_t bits;
};
struct Half {  // IEEE binary16
  uint16_t bits;
};

template <typename T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

enum class ElementType { kFloat, kDouble, kBFloat16, kHalf };
template <typename T>
constexpr ElementType kElementType = ElementType::kFloat;
template <>
inline constexpr ElementType kElementType<double> = ElementType::kDouble;
template <>
inline constexpr ElementType kElementType<BFloat16> = ElementType::kBFloat16;
template <>
inline constexpr ElementType kElementType<Half> = ElementType::kHalf;

/// act(T{}) with T the number type that is named.
template <typename Act>
void visit(ElementType type, const Act& act) {
  switch (type) {
    case ElementType::kFloat:
      return act(float{});
    case ElementType::kDouble:
      return act(double{});
    case ElementType::kBFloat16:
      return act(BFloat16{});
    case ElementType::kHalf:
      return act(Half{});
  }
}

HEADWISE_HOST_DEVICE inline float float_from_bits(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
HEADWISE_HOST_DEVICE inline uint32_t bits_of_float(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

HEADWISE_HOST_DEVICE inline float to_compute(float x) { return x; }
HEADWISE_HOST_DEVICE inline double to_compute(double x) { return x; }
HEADWISE_HOST_DEVICE inline float to_compute(BFloat16 x) {
  return float_from_bits(uint32_t{x.bits} << 16);
}
HEADWISE_HOST_DEVICE inline float to_compute(Half x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16, magnitude = x.bits & 0x7FFFu;
  if (magnitude >= 0x7C00u) {  // infinity, NaN
    return float_from_bits(sign | 0x7F800000u | (magnitude & 0x3FFu) << 13);
  }
  // Scaling by 2^112 moves the exponent; subnormal numbers become normal on the way.
  const float scaled = float_from_bits(magnitude << 13) * 0x1p112f;
  return float_from_bits(sign | bits_of_float(scaled));
}

/// Rounds to nearest, ties to even; NaN stays NaN.
template <typename T>
HEADWISE_HOST_DEVICE inline T from_compute(Compute<T> x) {
  return x;
}
template <>
HEADWISE_HOST_DEVICE inline BFloat16 from_compute<BFloat16>(float x) {
  const uint32_t bits = bits_of_float(x);
  if (x != x) return {static_cast<uint16_t>(bits >> 16 | 0x40u)};
  return {static_cast<uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16)};
}
template <>
HEADWISE_HOST_DEVICE inline Half from_compute<Half>(float x) {
  const uint32_t bits = bits_of_float(x), sign = bits >> 16 & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return {static_cast<uint16_t>(sign | 0x7E00u)};
  if (magnitude >= 0x477FF000u) return {static_cast<uint16_t>(sign | 0x7C00u)};  // rounds to inf
  if (magnitude < 0x38800000u) {  // subnormal: the sum with 1/2 rounds at 2^-24
    const float rounded = float_from_bits(magnitude) + 0.5f;
    return {static_cast<uint16_t>(sign | (bits_of_float(rounded) - 0x3F000000u))};
  }
  const uint32_t rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1u);
  return {static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

}  // namespace headwise::kernels
