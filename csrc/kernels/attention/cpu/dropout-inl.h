// Dropout bits of a tile, made in registers: the vector form of dropout.h, one query row a lane.
#if defined(HEADWISE_ATTENTION_DROPOUT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_DROPOUT_INL_H
#undef HEADWISE_ATTENTION_DROPOUT_INL_H
#else
#define HEADWISE_ATTENTION_DROPOUT_INL_H
#endif

#include <algorithm>

#include "csrc/kernels/attention/cpu/tiles.h"
#include "csrc/kernels/cpu/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// The low words of two vectors, in order, with the top bit of each half flipped: halves then
// compare as signed numbers.
HWY_INLINE void store_words(Words low, Words high, uint32_t* to) {
  const hn::Repartition<uint32_t, Lane64> d;
  const auto words = hn::ConcatEven(d, hn::BitCast(d, high), hn::BitCast(d, low));
  hn::StoreU(hn::Xor(words, hn::Set(d, 0x80008000u)), d, to);
}

// Random words of a tile: words[j / 2 * kTileRows + r] holds the bits of keys j (even, low half)
// and j + 1 of row r, for all keys that the rows see. Room for (kTileKeys / 2, kTileRows).
inline void draw_tile(const Dropout& dropout, int64_t heads, const TilePlace& at,
                      const KeyRange& keys, uint32_t* words) {
  const Lane64 d;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  HWY_ALIGN uint64_t row[kTileRows], head[kTileRows];
  const int64_t rows = divide_up(at.rows.count, step) * step;
  for (int64_t r = 0; r < rows; ++r) {
    row[r] = static_cast<uint32_t>(at.rows.row(r));
    head[r] = static_cast<uint32_t>(at.b * heads + at.rows.head(r));
  }
  const Words offset = hn::Set(d, uint64_t{dropout.offset});
  for (int64_t j = keys.begin / 32 * 32; j < keys.end; j += 32) {
    for (int64_t lane = 0; lane < 4 && j + 2 * lane < keys.end; ++lane) {
      const Words counter = hn::Set(d, static_cast<uint64_t>((at.first_key + j) / 8 + lane));
      uint32_t* to = words + (j / 2 + lane) * kTileRows;
      for (int64_t r = 0; r < rows; r += 2 * step) {
        const PhiloxVector low =
            draw_vector(dropout, {counter, hn::Load(d, row + r), hn::Load(d, head + r), offset});
        PhiloxVector high = low;
        if (r + step < rows) {
          high = draw_vector(dropout, {counter, hn::Load(d, row + r + step),
                                       hn::Load(d, head + r + step), offset});
        }
        store_words(low.x0, high.x0, to + r);
        store_words(low.x1, high.x1, to + r + 4 * kTileRows);
        store_words(low.x2, high.x2, to + r + 8 * kTileRows);
        store_words(low.x3, high.x3, to + r + 12 * kTileRows);
      }
    }
  }
}

// Keeps or drops the weights of key j; a column of draw_tile's words, null without dropout.
struct KeptColumn {
  const uint32_t* words;
  uint32_t threshold;

  template <typename V>
  HWY_INLINE V operator()(V x, int64_t j) const {
    using D = hn::DFromV<V>;
    const hn::Rebind<int32_t, D> d32;
    auto bits = hn::LoadU(d32, reinterpret_cast<const int32_t*>(words) + j / 2 * kTileRows);
    // The other half of the word is below what is compared, or has been shifted out.
    if (j % 2 == 0) bits = hn::ShiftLeft<16>(bits);
    const auto limit = hn::Set(d32, static_cast<int32_t>((threshold << 16) ^ 0x80000000u));
    if constexpr (sizeof(hn::TFromD<D>) == 4) {
      const auto dropped = hn::RebindMask(D(), hn::Lt(bits, limit));
      return hn::IfThenZeroElse(dropped, x);
    } else {
      const hn::RebindToSigned<D> d64;
      const auto dropped = hn::Lt(hn::PromoteTo(d64, bits), hn::PromoteTo(d64, limit));
      return hn::IfThenZeroElse(hn::RebindMask(D(), dropped), x);
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_ATTENTION_DROPOUT_INL_H
