#include "tests/kernels/attention_case.h"

#include <array>
#include <cmath>
#include <limits>

#include "tests/kernels/reference.h"

namespace headwise::testing {

namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Streams of random numbers; tensors have one each.
enum Stream : int64_t {
  kDropout,
  kLengths,
  kBeam,
  kMask,
  kBias,
  kQuery,
  kKey,
  kValue,
  kGradient,
  kLseGradient
};

}  // namespace

template <typename T>
Case<T>::Case(const Spec& spec) : spec_(spec) {
  inputs_.heads = spec.heads;
  inputs_.kv_heads = spec.kv_heads;
  inputs_.width = spec.width;
  inputs_.value_width = spec.value_width;
  inputs_.scale = spec.scale != 0.0 ? spec.scale : 1.0 / std::sqrt(double(spec.width));
  inputs_.rule = {spec.causal, spec.align_end, spec.left, spec.right};
  if (spec.dropout > 0.0) {
    Random random = stream(kDropout);
    inputs_.dropout = {random(), static_cast<uint32_t>(random()),
                       static_cast<uint32_t>(std::floor(spec.dropout * 65536 + 0.5))};
  }
  fill_positions();
  fill_inputs();
  if (spec.mask) fill_mask();
  if (spec.bias) fill_bias();
  if (spec.beam == 0) poison();  // cache rows are shared between sequences
  if (spec.poison == Poison::kKeys || spec.poison == Poison::kValues) poison_seen_keys();
  if (spec.poison == Poison::kQueries || spec.poison == Poison::kGradients) poison_seen_rows();
}

template <typename T>
void Case<T>::fill_positions() {
  kernels::Sequences& s = inputs_.sequences;
  s.count = spec_.batch;
  s.query_rows = spec_.queries;
  s.key_rows = spec_.keys;
  query_lengths_ = spec_.query_lengths;
  key_lengths_ = spec_.key_lengths;
  Random random = stream(kLengths);
  for (int64_t b = 0; b < spec_.batch; ++b) {
    // The first sequence is as long as any, so that the sizes hold; later ones may be empty.
    const int64_t queries = random.below(spec_.queries + 1), keys = random.below(spec_.keys + 1);
    if (spec_.query_lengths.empty()) query_lengths_.push_back(b == 0 ? spec_.queries : queries);
    if (spec_.key_lengths.empty()) key_lengths_.push_back(b == 0 ? spec_.keys : keys);
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
template <typename U>
Buffer<U> Case<T>::tensor(int64_t id, const Sizes& sizes, double magnitude, Layout layout) {
  const bool query_side = id != kKey && id != kValue;
  const std::vector<int64_t>& starts = query_side ? query_starts_ : key_starts_;
  Sizes in_memory = sizes;
  if (spec_.packed) {  // one row after the last sequence belongs to nobody
    in_memory.batch = 1;
    in_memory.row = starts.back() + 1;
  }
  Buffer<U> buffer(in_memory, layout);
  if (spec_.packed) buffer.view.batch = 0;
  for (int64_t b = 0; b < sizes.batch; ++b) {
    const int64_t first = spec_.packed ? starts[b] : 0;
    const int64_t rows = spec_.packed ? starts[b + 1] - starts[b] : sizes.row;
    for (int64_t h = 0; h < sizes.head; ++h) {
      for (int64_t i = 0; i < rows; ++i) {
        Random random{static_cast<int64_t>(spec_.seed), id, b, h, i};
        for (int64_t d = 0; d < sizes.column; ++d) {
          buffer.view.at(b, h, first + i, d) = convert<U>(magnitude * random.normal());
        }
      }
    }
  }
  return buffer;
}

template <typename T>
void Case<T>::fill_inputs() {
  const auto [batch, heads, groups] = std::array{spec_.batch, spec_.heads, spec_.kv_heads};
  const int64_t cache_rows = spec_.beam != 0 ? batch + 2 : batch;
  const Layout layout = spec_.layout, gradient_layout = spec_.gradient_layout;
  const double magnitude = spec_.magnitude;
  query_ = tensor<T>(kQuery, {batch, heads, spec_.queries, spec_.width}, magnitude, layout);
  key_ = tensor<T>(kKey, {cache_rows, groups, spec_.keys, spec_.width}, magnitude, layout);
  value_ = tensor<T>(kValue, {cache_rows, groups, spec_.keys, spec_.value_width}, 1.0, layout);
  output_gradient_ =
      tensor<T>(kGradient, {batch, heads, spec_.queries, spec_.value_width}, 1.0, gradient_layout);
  lse_gradient_ = tensor<C>(kLseGradient, {batch, heads, spec_.queries, 1}, 1.0, gradient_layout);
  inputs_.query = constant(query_.view);
  inputs_.key = constant(key_.view);
  inputs_.value = constant(value_.view);
  if (spec_.beam == 0) return;
  const int64_t positions = spec_.beam == 1 ? 1 : spec_.keys;
  Random random = stream(kBeam);
  for (int64_t n = 0; n < batch * positions; ++n) {
    beam_rows_.push_back(static_cast<int32_t>(random.below(cache_rows)));
  }
  inputs_.beam_index = {beam_rows_.data(), positions, spec_.beam == 1 ? 0 : 1};
}

template <typename T>
Sizes Case<T>::element_sizes(const Axes& axes) const {
  return {axes.batch ? spec_.batch : 1, axes.head ? spec_.heads : 1, axes.row ? spec_.queries : 1,
          axes.column ? spec_.keys : 1};
}

namespace {

template <typename T>
void broadcast(const Axes& axes, kernels::View<T>& view) {
  if (!axes.batch) view.batch = 0;
  if (!axes.head) view.head = 0;
  if (!axes.row) view.row = 0;
  if (!axes.column) view.column = 0;
}

// Calls fill(entry's place) for each entry of an element tensor.
template <typename Fill>
void for_each_entry(const Sizes& n, const Fill& fill) {
  for (int64_t b = 0; b < n.batch; ++b) {
    for (int64_t h = 0; h < n.head; ++h) {
      for (int64_t i = 0; i < n.row; ++i) {
        for (int64_t j = 0; j < n.column; ++j) fill(b, h, i, j);
      }
    }
  }
}

}  // namespace

template <typename T>
void Case<T>::fill_mask() {
  const Axes axes = *spec_.mask;
  const Sizes sizes = element_sizes(axes);
  mask_ = Buffer<uint8_t>(sizes, spec_.layout);
  Random random = stream(kMask);
  for_each_entry(sizes, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    bool hide = random.below(5) < 2;
    if (spec_.hide_tiles) hide = (i / 60 + j / 150 + h) % 2 == 0 || random.below(50) == 0;
    // one row sees nothing
    if (axes.row && axes.column && b == 0 && h == 0 && i == 0 && !spec_.keep) hide = true;
    mask_.view.at(b, h, i, j) = hide != spec_.keep;
  });
  broadcast(axes, mask_.view);
  inputs_.mask.view = {reinterpret_cast<const bool*>(mask_.view.data), mask_.view.batch,
                       mask_.view.head, mask_.view.row, mask_.view.column};
  inputs_.mask.hidden_value = !spec_.keep;
}

template <typename T>
void Case<T>::fill_bias() {
  const Axes axes = *spec_.bias;
  const Sizes sizes = element_sizes(axes);
  bias_ = Buffer<T>(sizes, spec_.layout);
  float_bias_ = Buffer<float>(sizes, spec_.layout);
  Random random = stream(kBias);
  for_each_entry(sizes, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
    const bool hidden = axes.column && random.below(8) == 0;
    const double number = hidden ? -kInfinity : random.normal();
    float_bias_.view.at(b, h, i, j) = static_cast<float>(number);
    bias_.view.at(b, h, i, j) = convert<T>(number);
  });
  broadcast(axes, bias_.view);
  const kernels::View<T>& v = bias_.view;
  const bool is_float = spec_.float_bias || std::is_same_v<T, float>;
  inputs_.bias = {is_float ? static_cast<const void*>(float_bias_.view.data) : v.data,
                  is_float,
                  v.batch,
                  v.head,
                  v.row,
                  v.column};
  bias_gradient_ = Result<C>(sizes, 2, 0, sizes.row);
  broadcast(axes, bias_gradient_.view);
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
int64_t Case<T>::rows_that_see(int64_t b, int64_t group, int64_t j) const {
  const Reference<double, T> reference(inputs_);
  int64_t count = 0;
  const int64_t heads = spec_.heads / spec_.kv_heads;
  for (int64_t h = group * heads; h < (group + 1) * heads; ++h) {
    for (int64_t i = 0; i < inputs_.sequences.query(b).length; ++i) {
      count += reference.visible(b, h, i, j);
    }
  }
  return count;
}

template <typename T>
void Case<T>::poison() {
  const T bad = convert<T>(kNaN), huge = convert<T>(kInfinity);
  const bool one_gradient = spec_.gradient_layout == Layout::kExpanded;  // shared with other rows
  for (int64_t b = 0; b < spec_.batch; ++b) {
    const kernels::Span queries = inputs_.sequences.query(b), keys = inputs_.sequences.key(b);
    for (int64_t h = 0; h < spec_.heads; ++h) {
      for (int64_t i = 0; i < queries.rows; ++i) {
        if (sees(b, h, i)) continue;
        query_.view.at(b, h, queries.first + i, 0) = bad;
        if (one_gradient) continue;
        output_gradient_.view.at(b, h, queries.first + i, 0) = bad;
        lse_gradient_.view.at(b, h, queries.first + i, 0) = convert<C>(kInfinity);
      }
    }
    for (int64_t g = 0; g < spec_.kv_heads; ++g) {
      for (int64_t j = 0; j < keys.rows; ++j) {
        if (rows_that_see(b, g, j) > 0) continue;
        key_.view.at(b, g, keys.first + j, 0) = j % 2 == 0 ? bad : huge;
        value_.view.at(b, g, keys.first + j, 0) = j % 2 == 0 ? convert<T>(-kInfinity) : bad;
      }
    }
  }
}

// The last two keys of each head that some rows see and others do not.
template <typename T>
void Case<T>::poison_seen_keys() {
  Buffer<T>& buffer = spec_.poison == Poison::kKeys ? key_ : value_;
  for (int64_t b = 0; b < spec_.batch; ++b) {
    const kernels::Span queries = inputs_.sequences.query(b), keys = inputs_.sequences.key(b);
    const int64_t rows = spec_.heads / spec_.kv_heads * queries.length;
    for (int64_t g = 0; g < spec_.kv_heads; ++g) {
      int64_t count = 0;
      for (int64_t j = keys.length - 1; j >= 0 && count < 2; --j) {
        const int64_t seen = rows_that_see(b, g, j);
        if (seen == 0 || seen == rows) continue;
        buffer.view.at(b, g, keys.first + j, 0) = convert<T>(count == 0 ? kNaN : kInfinity);
        ++count;
      }
    }
  }
}

// The first row of the first head of each sequence that sees anything.
template <typename T>
void Case<T>::poison_seen_rows() {
  Buffer<T>& buffer = spec_.poison == Poison::kQueries ? query_ : output_gradient_;
  for (int64_t b = 0; b < spec_.batch; ++b) {
    const kernels::Span queries = inputs_.sequences.query(b);
    for (int64_t i = 0; i < queries.length; ++i) {
      if (!sees(b, 0, i)) continue;
      buffer.view.at(b, 0, queries.first + i, 0) = convert<T>(b % 2 == 0 ? kNaN : kInfinity);
      break;
    }
  }
}

template <typename T>
template <typename U>
Result<U> Case<T>::result(int64_t heads, bool key_side, int64_t width) const {
  const int64_t gap = spec_.layout == Layout::kDense ? 0 : 3;
  const int64_t rows = key_side ? spec_.keys : spec_.queries;
  if (!spec_.packed) {
    Result<U> result({spec_.batch, heads, rows, width}, gap, 0, rows);
    result.clear(kNaN);
    return result;
  }
  const std::vector<int64_t>& starts = key_side ? key_starts_ : query_starts_;
  Result<U> result({1, heads, starts.back() + 1, width}, gap, starts.front(), starts.back());
  result.view.batch = 0;
  result.clear(kNaN);
  return result;
}

template <typename T>
kernels::ForwardParams<T> Case<T>::forward() {
  output_ = result<T>(spec_.heads, false, spec_.value_width);
  lse_ = result<C>(spec_.heads, false, 1);
  kernels::ForwardParams<T> params;
  static_cast<kernels::AttentionInputs<T>&>(params) = inputs_;
  params.output = output_.view;
  params.lse = lse_.view;
  return params;
}

template <typename T>
kernels::BackwardParams<T> Case<T>::backward() {
  query_gradient_ = result<T>(spec_.heads, false, spec_.width);
  key_gradient_ = result<T>(spec_.kv_heads, true, spec_.width);
  value_gradient_ = result<T>(spec_.kv_heads, true, spec_.value_width);
  bias_gradient_.clear(0.0);
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
  weights_ = Result<T>({spec_.batch, spec_.heads, spec_.queries, spec_.keys}, 1, 0, spec_.queries);
  weights_.clear(0.0);
  kernels::WeightsParams<T> params;
  static_cast<kernels::AttentionInputs<T>&>(params) = inputs_;
  params.lse = constant(lse_.view);
  params.weights = weights_.view;
  return params;
}

template <typename T>
bool Case<T>::guards_hold() const {
  return output_.guards_hold() && lse_.guards_hold() && query_gradient_.guards_hold() &&
         key_gradient_.guards_hold() && value_gradient_.guards_hold() &&
         bias_gradient_.guards_hold() && weights_.guards_hold();
}

template class Case<float>;
template class Case<double>;
template class Case<kernels::BFloat16>;
template class Case<kernels::Half>;

}  // namespace headwise::testing
