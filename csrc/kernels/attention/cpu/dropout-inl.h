// Dropout bits of a tile, made in registers: the vector form of dropout.h. Philox's four words live
// in 64-bit lanes, so that a 32 x 32 -> 64 multiplication needs no shuffle; what gathers in the
// upper halves is never read.
#if defined(HEADWISE_ATTENTION_DROPOUT_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_DROPOUT_INL_H
#undef HEADWISE_ATTENTION_DROPOUT_INL_H
#else
#define HEADWISE_ATTENTION_DROPOUT_INL_H
#endif

#include <algorithm>

#include "csrc/kernels/attention/cpu/tiles.h"
#include "csrc/kernels/attention/cpu/vectors-inl.h"
#include "csrc/kernels/attention/dropout.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

using Lane64 = hn::ScalableTag<uint64_t>;
using Words = hn::Vec<Lane64>;

// One word of several counters, as columns: all bits of a kept weight are set.
HWY_INLINE void store_kept(Words word, uint32_t threshold, int16_t* kept) {
  const hn::Rebind<uint32_t, Lane64> d32;
  const hn::Repartition<uint16_t, decltype(d32)> d16;
  const auto halves = hn::BitCast(d16, hn::TruncateTo(d32, word));
  const auto limit = hn::Set(d16, static_cast<uint16_t>(threshold));
  // halves >= limit, as an unsigned maximum
  const auto is_kept = hn::VecFromMask(d16, hn::Eq(hn::Max(halves, limit), halves));
  hn::StoreU(is_kept, d16, reinterpret_cast<uint16_t*>(kept));
}

HWY_INLINE Words multiply_low(Words a, uint32_t by) {
  const hn::Repartition<uint32_t, Lane64> d32;
  return hn::MulEven(hn::BitCast(d32, a), hn::BitCast(d32, hn::Set(Lane64(), uint64_t{by})));
}

// Philox4x32-7 of counters (word0, row, head, offset), lane by lane; word w goes to kept[w].
HWY_INLINE void draw_vector(const Dropout& dropout, Words word0, Words row, int64_t head,
                            int16_t (*kept)[32]) {
  const Lane64 d;
  Words x0 = word0, x1 = row, x2 = hn::Set(d, static_cast<uint32_t>(head) + uint64_t{0}),
        x3 = hn::Set(d, uint64_t{dropout.offset});
  uint32_t key0 = static_cast<uint32_t>(dropout.seed);
  uint32_t key1 = static_cast<uint32_t>(dropout.seed >> 32);
  for (int round = 0; round < 7; ++round) {
    const Words product0 = multiply_low(x0, 0xD2511F53);
    const Words product1 = multiply_low(x2, 0xCD9E8D57);
    x0 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product1), x1), hn::Set(d, uint64_t{key0}));
    x1 = product1;
    x2 = hn::Xor(hn::Xor(hn::ShiftRight<32>(product0), x3), hn::Set(d, uint64_t{key1}));
    x3 = product0;
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  store_kept(x0, dropout.threshold, kept[0]);
  store_kept(x1, dropout.threshold, kept[1]);
  store_kept(x2, dropout.threshold, kept[2]);
  store_kept(x3, dropout.threshold, kept[3]);
}

// kept[row * stride + column - first] for rows first_row … + rows and columns first … first +
// 32 * blocks: -1 where the weight is kept, 0 where it is dropped. first is a multiple of 32.
// head = b * H + h.
HWY_INLINE void draw_tile(const Dropout& dropout, int64_t head, int64_t first_row, int64_t rows,
                          int64_t first, int64_t blocks, int16_t* kept, int64_t stride) {
  const Lane64 d;
  const int64_t counters = hn::Lanes(d);  // a block has four
  const auto lane = hn::Iota(d, 0);
  const auto low = hn::And(lane, hn::Set(d, uint64_t{3})), high = hn::ShiftRight<2>(lane);
  const int64_t first_block = first / 32;
  alignas(64) int16_t words[4][32];
  // A vector of more than four counters covers neighbouring blocks of one row or, where a row has
  // only one, neighbouring rows.
  const bool by_rows = blocks == 1 && counters > 4;
  const int64_t rows_a_time = by_rows ? counters / 4 : 1;
  const int64_t counters_of_row = 4 * blocks;
  for (int64_t r = 0; r < rows; r += rows_a_time) {
    for (int64_t n = 0; n < counters_of_row; n += by_rows ? counters_of_row : counters) {
      const auto start = hn::Set(d, static_cast<uint64_t>(4 * first_block + n));
      const auto row = hn::Set(d, static_cast<uint64_t>(first_row + r));
      draw_vector(dropout, hn::Add(start, by_rows ? low : lane), by_rows ? hn::Add(row, high) : row,
                  head, words);
      // words[w] holds two columns a counter: counter 4 k + l belongs to unit k (a block or a row).
      const int64_t columns = 2 * std::min<int64_t>(counters, 4);  // of one word in one unit
      for (int64_t unit = 0; unit * 4 < counters; ++unit) {
        const int64_t to_row = by_rows ? r + unit : r;
        const int64_t counter = by_rows ? 0 : n + 4 * unit;
        if (to_row >= rows || counter >= counters_of_row) break;
        int16_t* to = kept + to_row * stride + counter / 4 * 32 + counter % 4 * 2;
        for (int w = 0; w < 4; ++w) {
          std::copy_n(words[w] + unit * columns, columns, to + 8 * w);
        }
      }
    }
  }
}

// Bits of a tile of rows, head by head, over the columns any of them sees.
HWY_INLINE void draw_rows(const Dropout& dropout, int64_t heads, const TilePlace& at,
                          const TileView& view, int16_t* kept) {
  const int64_t begin = view.all.begin / 32 * 32, blocks = divide_up(view.all.end - begin, 32);
  for (int64_t r = 0; r < view.rows;) {
    const int64_t h = at.rows.head(r);
    int64_t count = 1;
    while (r + count < view.rows && at.rows.head(r + count) == h) ++count;
    draw_tile(dropout, at.b * heads + h, at.rows.row(r), count, at.first_key + begin, blocks,
              kept + r * kTileKeys + begin, kTileKeys);
    r += count;
  }
}

HWY_INLINE Vec<float> keep_or_zero(Vec<float> x, const int16_t* kept) {
  const hn::RebindToSigned<Tag<float>> d32;
  const hn::Rebind<int16_t, Tag<float>> d16;
  return hn::And(x, hn::BitCast(Tag<float>(), hn::PromoteTo(d32, hn::LoadU(d16, kept))));
}
HWY_INLINE Vec<double> keep_or_zero(Vec<double> x, const int16_t* kept) {
  const hn::RebindToSigned<Tag<double>> d64;
  const hn::Rebind<int32_t, Tag<double>> d32;
  const hn::Rebind<int16_t, Tag<double>> d16;
  const auto wide = hn::PromoteTo(d64, hn::PromoteTo(d32, hn::LoadU(d16, kept)));
  return hn::And(x, hn::BitCast(Tag<double>(), wide));
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_ATTENTION_DROPOUT_INL_H
