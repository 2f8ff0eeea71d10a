#include "tests/kernels/attention_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "tests/kernels/reference.h"

namespace headwise::testing {

namespace {

constexpr double kUnwritten = 12345.0;

template <typename T>
kernels::View<const T> constant(const kernels::View<T>& v) {
  return {v.data, v.batch, v.head, v.row, v.column};
}

}  // namespace

template <typename T>
Case<T>::Case(const Spec& spec) : spec_(spec), generator_(spec.seed) {
  inputs_.heads = spec.heads;
  inputs_.kv_heads = spec.kv_heads;
  inputs_.width = spec.width;
  inputs_.value_width = spec.value_width;
  inputs_.scale = spec.scale != 0.0 ? spec.scale : 1.0 / std::sqrt(double(spec.width));
  inputs_.rule = {spec.causal, spec.align_end, spec.left, spec.right};
  if (spec.dropout > 0.0) {
    inputs_.dropout = {generator_(), static_cast<uint32_t>(generator_()),
                       static_cast<uint32_t>(std::floor(spec.dropout * 65536 + 0.5))};
  }
  fill_positions();
  fill_inputs();
  if (spec.mask) fill_mask();
  if (spec.bias) fill_bias();
  poison();
}

template <typename T>
void Case<T>::fill_positions() {
  kernels::Sequences& s = inputs_.sequences;
  s.count = spec_.batch;
  s.query_rows = spec_.queries;
  s.key_rows = spec_.keys;
  for (int64_t b = 0; b < spec_.batch; ++b) {
    // The first sequence is as long as any, so that the sizes hold; later ones may be empty.
    query_lengths_.push_back(b == 0 ? spec_.queries : below(spec_.queries + 1));
    key_lengths_.push_back(b == 0 ? spec_.keys : below(spec_.keys + 1));
  }
  if (spec_.packed) {
    query_starts_ = key_starts_ = {2};  // rows before the first sequence belong to nobody
    for (int64_t b = 0; b < spec_.batch; ++b) {
      query_starts_.push_back(query_starts_.back() + query_lengths_[b]);
      key_starts_.push_back(key_starts_.back() + key_lengths_[b]);
    }
    s.query_starts = query_starts_.data();
    s.key_starts = key_starts_.data();
  } else if (spec_.lengths || spec_.beam != 0) {
    if (spec_.beam == 0) s.query_lengths = query_lengths_.data();
    s.key_lengths = key_lengths_.data();
  }
}

template <typename T>
Buffer<T> Case<T>::tensor(int64_t batch, int64_t heads, int64_t rows, int64_t width,
                          double magnitude, Layout layout) {
  const int64_t column = layout == Layout::kStridedColumns ? 2 : 1, padded = width * column + 3;
  Buffer<T> buffer;
  buffer.memory.assign(batch * heads * rows * padded, std::numeric_limits<T>::quiet_NaN());
  kernels::View<T>& view = buffer.view;
  view.data = buffer.memory.data();
  view.column = column;
  view.row = layout == Layout::kHeadsFirst ? padded : heads * padded;
  view.head = layout == Layout::kHeadsFirst ? rows * padded : padded;
  view.batch = spec_.packed ? 0 : heads * rows * padded;
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < rows; ++i) {
        for (int64_t d = 0; d < width; ++d) {
          view.at(b, h, i, d) = static_cast<T>(magnitude * normal());
        }
      }
    }
  }
  return buffer;
}

template <typename T>
void Case<T>::fill_inputs() {
  const bool packed = spec_.packed;
  const int64_t batch = packed ? 1 : spec_.batch;
  const int64_t query_rows = packed ? query_starts_.back() + 1 : spec_.queries;
  const int64_t key_rows = packed ? key_starts_.back() + 1 : spec_.keys;
  const int64_t cache_rows = spec_.beam != 0 ? spec_.batch + 2 : batch;
  const Layout layout = spec_.layout;
  query_ = tensor(batch, spec_.heads, query_rows, spec_.width, spec_.magnitude, layout);
  key_ = tensor(cache_rows, spec_.kv_heads, key_rows, spec_.width, spec_.magnitude, layout);
  value_ = tensor(cache_rows, spec_.kv_heads, key_rows, spec_.value_width, 1.0, layout);
  output_gradient_ = tensor(batch, spec_.heads, query_rows, spec_.value_width, 1.0, layout);
  lse_gradient_ = tensor(batch, spec_.heads, query_rows, 1, 1.0, layout);
  inputs_.query = constant(query_.view);
  inputs_.key = constant(key_.view);
  inputs_.value = constant(value_.view);
  if (spec_.beam == 0) return;
  const int64_t positions = spec_.beam == 1 ? 1 : spec_.keys;
  for (int64_t n = 0; n < spec_.batch * positions; ++n) {
    beam_rows_.push_back(static_cast<int32_t>(below(cache_rows)));
  }
  inputs_.beam_index = {beam_rows_.data(), positions, spec_.beam == 1 ? 0 : 1};
}

template <typename T>
void Case<T>::fill_mask() {
  const auto [batch, head, row, column] = *spec_.mask;
  const int64_t sizes[4] = {batch ? spec_.batch : 1, head ? spec_.heads : 1,
                            row ? spec_.queries : 1, column ? spec_.keys : 1};
  mask_.resize(sizes[0] * sizes[1] * sizes[2] * sizes[3]);
  for (uint8_t& entry : mask_) entry = below(5) < 2 ? !spec_.keep : spec_.keep;
  if (row && column && !spec_.keep) {  // one row sees nothing
    for (int64_t j = 0; j < sizes[3]; ++j) mask_[j] = true;
  }
  inputs_.mask.view = {reinterpret_cast<const bool*>(mask_.data()),
                       batch ? sizes[1] * sizes[2] * sizes[3] : 0, head ? sizes[2] * sizes[3] : 0,
                       row ? sizes[3] : 0, column ? 1 : 0};
  inputs_.mask.hidden_value = !spec_.keep;
}

template <typename T>
void Case<T>::fill_bias() {
  const auto [batch, head, row, column] = *spec_.bias;
  const int64_t sizes[4] = {batch ? spec_.batch : 1, head ? spec_.heads : 1,
                            row ? spec_.queries : 1, column ? spec_.keys : 1};
  for (int64_t n = 0; n < sizes[0] * sizes[1] * sizes[2] * sizes[3]; ++n) {
    const bool hidden = column && below(8) == 0;
    float_bias_.push_back(hidden ? -std::numeric_limits<float>::infinity()
                                 : static_cast<float>(normal()));
    bias_.push_back(static_cast<T>(float_bias_.back()));
  }
  const bool is_float = spec_.float_bias || std::is_same_v<T, float>;
  inputs_.bias = {is_float ? static_cast<const void*>(float_bias_.data()) : bias_.data(),
                  is_float,
                  batch ? sizes[1] * sizes[2] * sizes[3] : 0,
                  head ? sizes[2] * sizes[3] : 0,
                  row ? sizes[3] : 0,
                  column ? 1 : 0};
  bias_gradient_.memory.assign(bias_.size(), 0);
  bias_gradient_.view = {bias_gradient_.memory.data(), inputs_.bias.batch, inputs_.bias.head,
                         inputs_.bias.row, inputs_.bias.column};
}

template <typename T>
bool Case<T>::sees(int64_t b, int64_t h, int64_t i) const {
  const Reference<double, T> reference(inputs_);
  for (int64_t j = 0; j < inputs_.sequences.key(b).length; ++j) {
    if (reference.visible(b, h, i, j)) return true;
  }
  return false;
}

template <typename T>
bool Case<T>::seen(int64_t b, int64_t group, int64_t j) const {
  const Reference<double, T> reference(inputs_);
  for (int64_t h = 0; h < spec_.heads; ++h) {
    if (inputs_.group_of(h) != group) continue;
    for (int64_t i = 0; i < inputs_.sequences.query(b).length; ++i) {
      if (reference.visible(b, h, i, j)) return true;
    }
  }
  return false;
}

template <typename T>
void Case<T>::poison() {
  const T bad = std::numeric_limits<T>::quiet_NaN(), huge = std::numeric_limits<T>::infinity();
  for (int64_t b = 0; b < spec_.batch; ++b) {
    const kernels::Span queries = inputs_.sequences.query(b), keys = inputs_.sequences.key(b);
    for (int64_t h = 0; h < spec_.heads; ++h) {
      for (int64_t i = 0; i < queries.rows; ++i) {
        if (sees(b, h, i)) continue;
        query_.view.at(b, h, queries.first + i, 0) = bad;
        output_gradient_.view.at(b, h, queries.first + i, 0) = bad;
        lse_gradient_.view.at(b, h, queries.first + i, 0) = huge;
      }
    }
    if (spec_.beam != 0) continue;  // cache rows are shared between sequences
    for (int64_t g = 0; g < spec_.kv_heads; ++g) {
      for (int64_t j = 0; j < keys.rows; ++j) {
        if (seen(b, g, j)) continue;
        key_.view.at(b, g, keys.first + j, 0) = j % 2 == 0 ? bad : huge;
        value_.view.at(b, g, keys.first + j, 0) = j % 2 == 0 ? -huge : bad;
      }
    }
  }
}

template <typename T>
Buffer<T> Case<T>::result(int64_t heads, bool key_side, int64_t width) {
  const std::vector<int64_t>& starts = key_side ? key_starts_ : query_starts_;
  const int64_t rows = spec_.packed ? starts.back() + 1 : (key_side ? spec_.keys : spec_.queries);
  Buffer<T> buffer;
  buffer.memory.assign((spec_.packed ? 1 : spec_.batch) * heads * rows * width, T(kUnwritten));
  buffer.view = {buffer.memory.data(), spec_.packed ? 0 : heads * rows * width, width,
                 heads * width, 1};
  return buffer;
}

template <typename T>
kernels::ForwardParams<T> Case<T>::forward() {
  output_ = result(spec_.heads, false, spec_.value_width);
  lse_ = result(spec_.heads, false, 1);
  kernels::ForwardParams<T> params;
  static_cast<kernels::AttentionInputs<T>&>(params) = inputs_;
  params.output = output_.view;
  params.lse = lse_.view;
  return params;
}

template <typename T>
kernels::BackwardParams<T> Case<T>::backward() {
  query_gradient_ = result(spec_.heads, false, spec_.width);
  key_gradient_ = result(spec_.kv_heads, true, spec_.width);
  value_gradient_ = result(spec_.kv_heads, true, spec_.value_width);
  std::fill(bias_gradient_.memory.begin(), bias_gradient_.memory.end(), T{0});
  kernels::BackwardParams<T> params;
  static_cast<kernels::AttentionInputs<T>&>(params) = inputs_;
  params.output = constant(output_.view);
  params.lse = constant(lse_.view);
  params.output_gradient = constant(output_gradient_.view);
  if (spec_.lse_gradient) params.lse_gradient = constant(lse_gradient_.view);
  params.query_gradient = query_gradient_.view;
  params.key_gradient = key_gradient_.view;
  params.value_gradient = value_gradient_.view;
  if (spec_.bias) params.bias_gradient = bias_gradient_.view;
  return params;
}

template <typename T>
kernels::WeightsParams<T> Case<T>::weights() {
  const int64_t keys = spec_.keys, queries = spec_.queries;
  weights_.memory.assign(spec_.batch * spec_.heads * queries * keys, T{0});
  weights_.view = {weights_.memory.data(), spec_.heads * queries * keys, queries * keys, keys, 1};
  kernels::WeightsParams<T> params;
  static_cast<kernels::AttentionInputs<T>&>(params) = inputs_;
  params.lse = constant(lse_.view);
  params.weights = weights_.view;
  return params;
}

template <typename T>
bool Case<T>::same_results(const Case& other) const {
  const auto same = [](const Buffer<T>& a, const Buffer<T>& b) {
    const size_t bytes = a.memory.size() * sizeof(T);
    return a.memory.size() == b.memory.size() &&
           (bytes == 0 || std::memcmp(a.memory.data(), b.memory.data(), bytes) == 0);
  };
  return same(output_, other.output_) && same(lse_, other.lse_) &&
         same(query_gradient_, other.query_gradient_) && same(key_gradient_, other.key_gradient_) &&
         same(value_gradient_, other.value_gradient_) && same(bias_gradient_, other.bias_gradient_);
}

template class Case<float>;
template class Case<double>;

}  // namespace headwise::testing
