// Attention of few rows. Rows that see the same keys (a sentence encoded, or read by its beams) go
// through two products; rows with pasts of their own read keys and values wherever they lie.
#if defined(HEADWISE_TRANSFORMER_ATTEND_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_TRANSFORMER_ATTEND_INL_H
#undef HEADWISE_TRANSFORMER_ATTEND_INL_H
#else
#define HEADWISE_TRANSFORMER_ATTEND_INL_H
#endif

#include <algorithm>

#include "csrc/kernels/transformer/cpu/layout.h"
#include "csrc/kernels/transformer/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// Weights of `keys` scores in place, for each of some rows; those past them, up to a whole vector,
// become 0. Rows go through each pass together: a row alone would wait for sums across its lanes.
template <typename C>
void softmax_rows(C* scores, int64_t rows, int64_t stride, int64_t keys) {
  const Tag<C> d;
  const int64_t step = lanes<C>();
  const int64_t last = (keys - 1) / step * step;
  const auto within = lanes_within<C>(last, 0, keys);
  const Vec<C> never = minus_infinity(d);
  C factors[kMostShared];
  for (int64_t r = 0; r < rows; ++r) {
    C* row = scores + r * stride;
    Vec<C> largest = hn::IfThenElse(within, hn::LoadU(d, row + last), never);
    hn::StoreU(largest, d, row + last);
    for (int64_t j = 0; j < last; j += step) largest = hn::Max(largest, hn::LoadU(d, row + j));
    factors[r] = largest_lane<C>(largest);
  }
  for (int64_t r = 0; r < rows; ++r) {
    C* row = scores + r * stride;
    const Vec<C> largest = hn::Set(d, factors[r]);
    Vec<C> sum = hn::Zero(d);
    for (int64_t j = 0; j < keys; j += step) {
      const Vec<C> weight = exp_score(hn::Sub(hn::LoadU(d, row + j), largest));
      hn::StoreU(weight, d, row + j);
      sum = hn::Add(sum, weight);
    }
    factors[r] = 1 / sum_of_lanes<C>(sum);
  }
  for (int64_t r = 0; r < rows; ++r) {
    C* row = scores + r * stride;
    const Vec<C> factor = hn::Set(d, factors[r]);
    for (int64_t j = 0; j < keys; j += step) {
      hn::StoreU(hn::Mul(hn::LoadU(d, row + j), factor), d, row + j);
    }
  }
}

// What rows of one sentence see together: keys (G, D, T) transposed, T padded; values (T, G D).
template <typename C>
struct SharedKeys {
  const C* keys;
  const C* values;
  int64_t value_stride, count;  // T
};

// `scores` has room for kMostShared rows of T, padded.
template <typename C>
void attend_shared(const PackedAttention<C>& attention, int64_t rows, const Rows<C>& queries,
                   const SharedKeys<C>& seen, const Rows<C>& heads, C* scores) {
  const int64_t depth = padded<C>(attention.head_width), width = padded<C>(seen.count);
  const int64_t group = attention.heads / attention.kv_heads;
  const int64_t share = even_share(rows, kMostShared);
  for (int64_t h = 0; h < attention.heads; ++h) {
    const RightFactor<C> keys{seen.keys + h / group * depth * width, width};
    const RightFactor<C> values{seen.values + h / group * depth, seen.value_stride};
    for (int64_t first = 0; first < rows; first += share) {
      const int64_t count = std::min(share, rows - first);
      const auto each_block = [&](int64_t columns, const auto& act) {
        const Blocking block = blocking<C>(count, columns);
        for (int64_t r = 0; r < count; r += block.rows) {
          act(r, std::min(block.rows, count - r), block.columns);
        }
      };
      each_block(width, [&](int64_t r, int64_t some, int64_t panel) {
        product(some, width, panel,
                LeftFactor<C>{queries[first + r] + h * depth, queries.stride, 1}, keys,
                attention.head_width, scores + r * width, width, Store::kWrite);
      });
      softmax_rows(scores, count, width, seen.count);
      each_block(depth, [&](int64_t r, int64_t some, int64_t panel) {
        product(some, depth, panel, LeftFactor<C>{scores + r * width, width, 1}, values, seen.count,
                heads[first + r] + h * depth, heads.stride, Store::kWrite);
      });
    }
  }
}

// Key and value rows of one row's past; `rows` has whole fours, the last ones repeated.
template <typename C>
struct Past {
  const C* const* rows;
  int64_t count;
};

// Four sums, each of the lanes of a vector.
HWY_INLINE hn::Vec<hn::Full128<float>> fold(hn::Vec<hn::Full128<float>> x) { return x; }
#if HWY_TARGET != HWY_SSE4
HWY_INLINE hn::Vec<hn::Full128<float>> fold(hn::Vec<hn::Full256<float>> x) {
  const hn::Full128<float> d;
  return hn::Add(hn::LowerHalf(d, x), hn::UpperHalf(d, x));
}
#endif
#if HWY_TARGET <= HWY_AVX3
HWY_INLINE hn::Vec<hn::Full128<float>> fold(hn::Vec<hn::Full512<float>> x) {
  const hn::Full256<float> d;
  return fold(hn::Add(hn::LowerHalf(d, x), hn::UpperHalf(d, x)));
}
#endif
HWY_INLINE void store_four_sums(Vec<float> a, Vec<float> b, Vec<float> c, Vec<float> e, float* to) {
  const Tag<float> d;
  const hn::RepartitionToWide<Tag<float>> pairs;
  const auto ab = hn::Add(hn::InterleaveLower(d, a, b), hn::InterleaveUpper(d, a, b));
  const auto ce = hn::Add(hn::InterleaveLower(d, c, e), hn::InterleaveUpper(d, c, e));
  const auto low = hn::InterleaveLower(pairs, hn::BitCast(pairs, ab), hn::BitCast(pairs, ce));
  const auto high = hn::InterleaveUpper(pairs, hn::BitCast(pairs, ab), hn::BitCast(pairs, ce));
  hn::StoreU(fold(hn::Add(hn::BitCast(d, low), hn::BitCast(d, high))), hn::Full128<float>(), to);
}
HWY_INLINE void store_four_sums(Vec<double> a, Vec<double> b, Vec<double> c, Vec<double> e,
                                double* to) {
  to[0] = sum_of_lanes<double>(a);
  to[1] = sum_of_lanes<double>(b);
  to[2] = sum_of_lanes<double>(c);
  to[3] = sum_of_lanes<double>(e);
}

template <typename C>
void score_past(const C* query, const Past<C>& past, int64_t at, int64_t width, C* scores) {
  const Tag<C> d;
  for (int64_t j = 0; j < past.count; j += 4) {
    const C* const* rows = past.rows + j;
    Vec<C> a = hn::Zero(d), b = a, c = a, e = a;
    for (int64_t i = 0; i < width; i += lanes<C>()) {
      const Vec<C> q = hn::LoadU(d, query + i);
      a = hn::MulAdd(q, hn::LoadU(d, rows[0] + at + i), a);
      b = hn::MulAdd(q, hn::LoadU(d, rows[1] + at + i), b);
      c = hn::MulAdd(q, hn::LoadU(d, rows[2] + at + i), c);
      e = hn::MulAdd(q, hn::LoadU(d, rows[3] + at + i), e);
    }
    store_four_sums(a, b, c, e, scores + j);
  }
}

template <int kVectors, typename C>
HWY_INLINE void mix_columns(const C* weights, const Past<C>& past, int64_t at, C* to) {
  const Tag<C> d;
  const int64_t step = lanes<C>();
  Vec<C> sum[kVectors];
  HWY_UNROLL(4)
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::Zero(d);
  for (int64_t j = 0; j < past.count; ++j) {
    const Vec<C> weight = hn::Set(d, weights[j]);
    const C* row = past.rows[j] + at;
    HWY_UNROLL(4)
    for (int v = 0; v < kVectors; ++v) {
      sum[v] = hn::MulAdd(weight, hn::LoadU(d, row + v * step), sum[v]);
    }
  }
  HWY_UNROLL(4)
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, to + v * step);
}

// `scores` has room for kMostShared rows of the past, padded. Rows of the past hold G D keys, then
// G D values.
template <typename C>
void attend_past(const PackedAttention<C>& attention, const C* query, const Past<C>& past, C* to,
                 C* scores) {
  const int64_t width = padded<C>(attention.head_width), step = lanes<C>();
  const int64_t group = attention.heads / attention.kv_heads, room = padded<C>(past.count);
  for (int64_t first = 0; first < attention.heads; first += kMostShared) {
    const int64_t end = std::min(first + kMostShared, attention.heads);
    for (int64_t h = first; h < end; ++h) {
      score_past(query + h * width, past, h / group * width, width, scores + (h - first) * room);
    }
    softmax_rows(scores, end - first, room, past.count);
    for (int64_t h = first; h < end; ++h) {
      const C* weights = scores + (h - first) * room;
      const int64_t values = (attention.kv_heads + h / group) * width;
      C* sum = to + h * width;
      int64_t i = 0;
      for (; i + 4 * step <= width; i += 4 * step) {
        mix_columns<4>(weights, past, values + i, sum + i);
      }
      for (; i + 2 * step <= width; i += 2 * step) {
        mix_columns<2>(weights, past, values + i, sum + i);
      }
      for (; i < width; i += step) mix_columns<1>(weights, past, values + i, sum + i);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_TRANSFORMER_ATTEND_INL_H
