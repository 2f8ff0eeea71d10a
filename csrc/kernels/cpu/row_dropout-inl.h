// Dropout of rows of tokens: the vector form of dropout.h, along a row, of matrix 0.
#if defined(HEADWISE_ROW_DROPOUT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ROW_DROPOUT_INL_H
#undef HEADWISE_ROW_DROPOUT_INL_H
#else
#define HEADWISE_ROW_DROPOUT_INL_H
#endif

#include <algorithm>

#include "csrc/kernels/cpu/philox-inl.h"
#include "csrc/kernels/cpu/row_blocks.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// Keeps or drops the numbers of one row after the other.
template <typename C>
class RowDropout {
 public:
  // `bits`: room for row_bits(width) numbers.
  RowDropout(const Dropout& dropout, int64_t width, uint16_t* bits)
      : dropout_(dropout), width_(width), bits_(bits), factor_(C(dropout_scale(dropout))) {}

  bool drops() const { return dropout_.threshold != 0; }

  void draw(int64_t row) const {
    if (!drops()) return;
    const Lane64 d;
    const auto step = static_cast<int64_t>(hn::Lanes(d));
    const Words rows = hn::Set(d, uint64_t{static_cast<uint32_t>(row)});
    const Words offset = hn::Set(d, uint64_t{dropout_.offset});
    const int64_t counters = 4 * divide_up(width_, 32);
    for (int64_t counter = 0; counter < counters; counter += step) {
      const Words numbers = hn::Iota(d, static_cast<uint64_t>(counter));
      store(draw_vector(dropout_, {numbers, rows, hn::Zero(d), offset}), counter);
    }
  }

  // x, scaled up, or 0 where it is dropped; its first number is the row's number i.
  HWY_INLINE Vec<C> operator()(Vec<C> x, int64_t i) const {
    if (!drops()) return x;
    const Tag<C> d;
    const hn::Rebind<uint16_t, Tag<C>> d16;
    const hn::Rebind<int32_t, Tag<C>> d32;
    const auto bits = hn::PromoteTo(d32, hn::LoadU(d16, bits_ + i));
    const auto limit = hn::Set(d32, static_cast<int32_t>(dropout_.threshold));
    return hn::IfThenZeroElse(less(bits, limit), hn::Mul(x, hn::Set(d, factor_)));
  }

 private:
  template <class V>
  static HWY_INLINE hn::Mask<Tag<C>> less(V bits, V limit) {
    if constexpr (sizeof(C) == 4) {
      return hn::RebindMask(Tag<C>(), hn::Lt(bits, limit));
    } else {
      const hn::RebindToSigned<Tag<C>> d64;
      return hn::RebindMask(Tag<C>(), hn::Lt(hn::PromoteTo(d64, bits), hn::PromoteTo(d64, limit)));
    }
  }

  // Word w of counter n holds the columns 32 (n / 4) + 8 w + 2 (n % 4) + {0, 1}.
  HWY_INLINE void store(const PhiloxVector& words, int64_t first) const {
    const Lane64 d;
    const hn::Repartition<uint32_t, Lane64> d32;
    constexpr int64_t kMost = 16;
    HWY_ALIGN uint32_t low[2][kMost];
    const auto step = static_cast<int64_t>(hn::Lanes(d));
    hn::Store(hn::ConcatEven(d32, hn::BitCast(d32, words.x1), hn::BitCast(d32, words.x0)), d32,
              low[0]);
    hn::Store(hn::ConcatEven(d32, hn::BitCast(d32, words.x3), hn::BitCast(d32, words.x2)), d32,
              low[1]);
    // A size the compiler knows: a call for every 16 bytes took 2 % of a training step.
    constexpr auto kGroup = std::min<int64_t>(4, hn::MaxLanes(Lane64()));
    for (int64_t w = 0; w < 4; ++w) {
      for (int64_t n = 0; n < step; n += kGroup) {
        const int64_t counter = first + n;
        std::copy_n(reinterpret_cast<const uint16_t*>(low[w / 2] + w % 2 * step + n), 2 * kGroup,
                    bits_ + counter / 4 * 32 + 8 * w + counter % 4 * 2);
      }
    }
  }

  const Dropout dropout_;
  const int64_t width_;
  uint16_t* const bits_;
  const C factor_;
};

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_ROW_DROPOUT_INL_H
