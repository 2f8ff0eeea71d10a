// Rows of BFloat16 as factors of a product of pairs, for processors with the instruction.
#if defined(HEADWISE_ATTENTION_PACK_PAIRS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_ATTENTION_PACK_PAIRS_INL_H
#undef HEADWISE_ATTENTION_PACK_PAIRS_INL_H
#else
#define HEADWISE_ATTENTION_PACK_PAIRS_INL_H
#endif

#include <algorithm>
#include <cstring>

#include "csrc/kernels/attention/cpu/tiles.h"
#include "csrc/kernels/cpu/pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

using BFloat16Pair = Pair<true>;

#if HEADWISE_PAIR_INSTRUCTIONS

using PairTag = hn::RebindToUnsigned<Tag<float>>;

HWY_INLINE BFloat16Pair* pairs_of(float* memory) { return reinterpret_cast<BFloat16Pair*>(memory); }

// Numbers of two rows become pairs, in two vectors.
class Interleaver {
  using D = hn::Repartition<uint16_t, PairTag>;
  using V = hn::Vec<D>;
  HWY_ALIGN static constexpr uint16_t kLower[] = {0,  32, 1,  33, 2,  34, 3,  35, 4,  36, 5,
                                                  37, 6,  38, 7,  39, 8,  40, 9,  41, 10, 42,
                                                  11, 43, 12, 44, 13, 45, 14, 46, 15, 47};

 public:
  static constexpr int64_t kNumbers = 32;  // of a row

  HWY_INLINE Interleaver()
      : lower_(hn::Load(D(), kLower)), upper_(hn::Add(lower_, hn::Set(D(), uint16_t{16}))) {}

  HWY_INLINE V lower(V even, V odd) const { return choose(even, lower_, odd); }
  HWY_INLINE V upper(V even, V odd) const { return choose(even, upper_, odd); }

 private:
  static HWY_INLINE V choose(V a, V index, V b) {
    return V{_mm512_permutex2var_epi16(a.raw, index.raw, b.raw)};
  }
  const V lower_, upper_;
};

// Pairs of following rows as the right factor, made as they are read; the width is whole vectors.
struct RowPairs {
  static constexpr bool kOnlyPairsOfVectors = true;
  const BFloat16* data;
  int64_t stride;
  Interleaver interleaver = {};

  int64_t step() const { return 2 * stride; }
  template <class D, int kVectors>
  HWY_INLINE void load(D d, const BFloat16* at, hn::Vec<D> (&row)[kVectors]) const {
    static_assert(kVectors % 2 == 0);
    const hn::Repartition<uint16_t, D> numbers;
    const auto* even = reinterpret_cast<const uint16_t*>(at);
    const auto* odd = reinterpret_cast<const uint16_t*>(at + stride);
    for (int v = 0; v < kVectors; v += 2) {
      const auto a = hn::LoadU(numbers, even + v * 16), b = hn::LoadU(numbers, odd + v * 16);
      row[v] = hn::BitCast(d, interleaver.lower(a, b));
      row[v + 1] = hn::BitCast(d, interleaver.upper(a, b));
    }
  }
};

// Rows copied as pairs along the width, padded by zeros to whole vectors.
inline void pack_pairs(const RowList<BFloat16>& list, BFloat16Pair* to) {
  const int64_t pairs = round_up_to_vectors<float>(divide_up(list.width, 2));
  for (int64_t r = 0; r < list.count; ++r, to += pairs) {
    std::memset(to + list.width / 2, 0, (pairs - list.width / 2) * sizeof(BFloat16Pair));
    auto* numbers = reinterpret_cast<std::byte*>(to);
    if (list.column_stride == 1) {
      std::memcpy(numbers, list.rows[r], list.width * sizeof(BFloat16));
      continue;
    }
    for (int64_t i = 0; i < list.width; ++i) {
      std::memcpy(numbers + i * sizeof(BFloat16), list.rows[r] + i * list.column_stride,
                  sizeof(BFloat16));
    }
  }
}

// Rows as the left factor: where they lie, or a copy.
inline Operand<BFloat16Pair> left_pairs(const RowList<BFloat16>& list, float* copy) {
  const bool is_aligned = reinterpret_cast<uintptr_t>(list.rows[0]) % sizeof(BFloat16Pair) == 0;
  if (list.column_stride == 1 && list.row_stride != 0 && list.row_stride % 2 == 0 &&
      list.width % 2 == 0 && is_aligned) {
    return {reinterpret_cast<const BFloat16Pair*>(list.rows[0]), list.row_stride / 2};
  }
  pack_pairs(list, pairs_of(copy));
  return {pairs_of(copy), round_up_to_vectors<float>(divide_up(list.width, 2))};
}

// The transpose in panels, as pack_transposed makes it of numbers.
inline void pack_transposed_pairs(const RowList<BFloat16>& list, uint32_t* copy, BFloat16Pair* to) {
  const int64_t pairs = divide_up(list.width, 2);
  pack_pairs(list, reinterpret_cast<BFloat16Pair*>(copy));
  const float* rows[kTileRows];
  for (int64_t r = 0; r < list.count; ++r) {
    rows[r] = reinterpret_cast<const float*>(copy) + r * round_up_to_vectors<float>(pairs);
  }
  pack_transposed<float>({rows, list.count, pairs, 1, round_up_to_vectors<float>(pairs)},
                         reinterpret_cast<float*>(to));
}

// Pairs of following rows as the right factor: number i of rows 2n and 2n + 1 at to[n * padded +
// i]; zeros after the last row and column. The rows `next`, one a row, are asked for. Returns
// whether all numbers are finite.
inline bool pack_value_pairs(const RowList<BFloat16>& list, int64_t padded, BFloat16Pair* to) {
  const hn::Repartition<uint16_t, PairTag> d;
  constexpr int64_t kNumbers = Interleaver::kNumbers;
  HWY_ALIGN static constexpr BFloat16 kNoRow[kNumbers] = {};
  const Interleaver interleaver;
  const auto magnitude = hn::Set(d, uint16_t{0x7FFF});
  auto largest = hn::Zero(d);
  const auto pack = [&](const uint16_t* even, const uint16_t* odd, uint16_t* pairs, bool is_whole) {
    const auto a = hn::LoadU(d, even), b = hn::LoadU(d, odd);
    largest = hn::Max(largest, hn::Max(hn::And(a, magnitude), hn::And(b, magnitude)));
    hn::StoreU(interleaver.lower(a, b), d, pairs);
    if (is_whole) hn::StoreU(interleaver.upper(a, b), d, pairs + kNumbers);
  };
  const int64_t whole = list.column_stride == 1 ? list.width / kNumbers * kNumbers : 0;
  for (int64_t j = 0; j < list.count; j += 2, to += padded) {
    const bool has_odd = j + 1 < list.count;
    const BFloat16 *even = list.rows[j], *odd = has_odd ? list.rows[j + 1] : kNoRow;
    auto* pairs = reinterpret_cast<uint16_t*>(to);
    const auto* a = reinterpret_cast<const uint16_t*>(even);
    const auto* b = reinterpret_cast<const uint16_t*>(odd);
    for (int64_t i = 0; i < whole; i += kNumbers) {
      pack(a + i, has_odd ? b + i : b, pairs + 2 * i, true);
    }
    for (int64_t i = whole; i < list.width; i += kNumbers) {
      HWY_ALIGN uint16_t copies[2][kNumbers] = {};
      for (int64_t c = 0; c < std::min(kNumbers, list.width - i); ++c) {
        const int64_t from = (i + c) * list.column_stride;
        std::memcpy(&copies[0][c], even + from, sizeof(uint16_t));
        if (has_odd) std::memcpy(&copies[1][c], odd + from, sizeof(uint16_t));
      }
      pack(copies[0], copies[1], pairs + 2 * i, i + kNumbers / 2 < padded);
    }
  }
  return hn::AllTrue(d, hn::Lt(largest, hn::Set(d, uint16_t{0x7F80})));
}

// Weights (key, row), rounded to BFloat16, become pairs of following keys in place; zero beside the
// first and last visible key.
inline void pair_weights(const KeyRange& keys, int64_t rows, int64_t stride, float* weights) {
  const Tag<float> df;
  const PairTag d;
  const auto upper = hn::Set(d, 0xFFFF0000u);
  for (int64_t r = 0; r < rows; r += static_cast<int64_t>(hn::Lanes(d))) {
    const auto bits = [&](int64_t j) {
      if (j < keys.begin || j >= keys.end) return hn::Zero(d);
      return hn::BitCast(d, hn::LoadU(df, weights + j * stride + r));
    };
    for (int64_t j = keys.begin / 2 * 2; j < keys.end; j += 2) {
      const auto pair = hn::Or(hn::ShiftRight<16>(bits(j)), hn::And(bits(j + 1), upper));
      hn::StoreU(hn::BitCast(df, pair), df, weights + j / 2 * stride + r);
    }
  }
}

#endif  // HEADWISE_PAIR_INSTRUCTIONS

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_ATTENTION_PACK_PAIRS_INL_H
