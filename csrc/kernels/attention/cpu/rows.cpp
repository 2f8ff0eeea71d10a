#include "csrc/kernels/attention/cpu/rows.h"

#include <limits>

#include "csrc/kernels/attention/cpu/vector_ops.h"

namespace headwise::kernels::cpu {

namespace {

constexpr int64_t kDropoutBlock = 32;  // columns that share the counters of dropout_bits

}  // namespace

template <typename T>
Rows<T>::Rows(const AttentionInputs<T>& inputs, Arena& arena) : in_(inputs) {
  const int64_t keys = in_.sequences.key_rows;
  columns_ = arena.take<int64_t>(keys);
  keys_ = arena.take<const T*>(keys);
  values_ = arena.take<const T*>(keys);
  if (in_.mask.view.data != nullptr || in_.bias.data != nullptr) {
    seen_columns_ = arena.take<int64_t>(keys);
    seen_keys_ = arena.take<const T*>(keys);
    seen_values_ = arena.take<const T*>(keys);
  }
  if (in_.key.column != 1) key_copy_ = arena.take<T>(keys * in_.width);
  if (in_.value.column != 1) value_copy_ = arena.take<T>(keys * in_.value_width);
  if (in_.query.column != 1) query_copy_ = arena.take<T>(in_.width);
  if (in_.dropout.threshold != 0) factors_ = arena.take<T>(keys + kDropoutBlock);
}

template <typename T>
void Rows<T>::load(int64_t b, int64_t group) {
  b_ = b;
  query_span_ = in_.sequences.query(b);
  key_span_ = in_.sequences.key(b);
  const auto copy_of = [](T* copies, int64_t j, int64_t width) {
    return copies == nullptr ? nullptr : copies + j * width;
  };
  for (int64_t j = 0; j < key_span_.length; ++j) {
    const int64_t cache_row = in_.beam_index.row(b, j);
    columns_[j] = j;
    keys_[j] = contiguous_row(in_.key.at(cache_row, group, key_span_.first + j), in_.key.column,
                              in_.width, copy_of(key_copy_, j, in_.width));
    if (in_.value.data == nullptr) continue;
    values_[j] =
        contiguous_row(in_.value.at(cache_row, group, key_span_.first + j), in_.value.column,
                       in_.value_width, copy_of(value_copy_, j, in_.value_width));
  }
}

template <typename T>
VisibleKeys<T> Rows<T>::visible(int64_t h, int64_t i) const {
  const KeyRange range = visible_range(in_.rule, i, query_span_.length, key_span_.length);
  const bool masked = in_.mask.view.data != nullptr;
  const bool biased = in_.bias.data != nullptr;
  if (!masked && !biased) {
    return {range.end - range.begin, columns_ + range.begin, keys_ + range.begin,
            values_ + range.begin};
  }
  constexpr T kHidden = -std::numeric_limits<T>::infinity();
  int64_t count = 0;
  for (int64_t j = range.begin; j < range.end; ++j) {
    if (masked && in_.mask.hides(b_, h, i, j)) continue;
    if (biased && in_.bias.template at<T>(b_, h, i, j) == kHidden) continue;
    seen_columns_[count] = j;
    seen_keys_[count] = keys_[j];
    seen_values_[count] = values_[j];
    ++count;
  }
  return {count, seen_columns_, seen_keys_, seen_values_};
}

template <typename T>
const T* Rows<T>::query(int64_t h, int64_t i) const {
  return contiguous_row(in_.query.at(b_, h, query_span_.first + i), in_.query.column, in_.width,
                        query_copy_);
}

template <typename T>
void Rows<T>::score(int64_t h, int64_t i, const VisibleKeys<T>& keys, const T* query,
                    T* scores) const {
  dot_rows(query, keys.keys, keys.count, in_.width, scores);
  const T scale = static_cast<T>(in_.scale);
  for (int64_t k = 0; k < keys.count; ++k) scores[k] *= scale;
  if (in_.bias.data == nullptr) return;
  for (int64_t k = 0; k < keys.count; ++k) {
    scores[k] += in_.bias.template at<T>(b_, h, i, keys.columns[k]);
  }
}

template <typename T>
void Rows<T>::draw(int64_t h, int64_t i, const VisibleKeys<T>& keys) const {
  if (factors_ == nullptr || keys.count == 0) return;
  const int64_t end = keys.columns[keys.count - 1] + 1;
  const T kept = static_cast<T>(dropout_scale(in_.dropout));
  const auto factor = [&](uint32_t half) { return half >= in_.dropout.threshold ? kept : T{0}; };
  for (int64_t block = keys.columns[0] / kDropoutBlock; block * kDropoutBlock < end; ++block) {
    for (int lane = 0; lane < 4; ++lane) {
      const Philox4 bits = dropout_bits(in_.dropout, b_ * in_.heads + h, i, block, lane);
      T* pair = factors_ + block * kDropoutBlock + 2 * lane;
      for (int w = 0; w < 4; ++w) {
        pair[8 * w] = factor(bits.word[w] & 0xFFFF);
        pair[8 * w + 1] = factor(bits.word[w] >> 16);
      }
    }
  }
}

template <typename T>
void Rows<T>::drop(const VisibleKeys<T>& keys, T* weights) const {
  if (factors_ == nullptr) return;
  for (int64_t k = 0; k < keys.count; ++k) weights[k] *= factors_[keys.columns[k]];
}

template class Rows<float>;
template class Rows<double>;

}  // namespace headwise::kernels::cpu
