// Whether two runs of a problem gave the same bits.
#include "tests/kernels/attention_case.h"

namespace headwise::testing {

namespace {

template <typename U>
bool same_list(const Result<U>& a, kernels::Span a_span, const Result<U>& b, kernels::Span b_span,
               int64_t sequence, int64_t heads, int64_t width) {
  if (a.view.data == nullptr || b.view.data == nullptr) return a.view.data == b.view.data;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < a_span.length; ++i) {
      if (!same_bits_of(a.view.at(sequence, h, a_span.first + i),
                        b.view.at(sequence, h, b_span.first + i), width)) {
        return false;
      }
    }
  }
  return a_span.length == b_span.length;
}

}  // namespace

template <typename T>
bool Case<T>::same_rows(const Case& other) const {
  for (int64_t b = 0; b < spec_.batch; ++b) {
    const auto same = [&](const auto& mine, const auto& its, bool key_side, int64_t heads,
                          int64_t width) {
      const kernels::Sequences &s = inputs_.sequences, &t = other.inputs_.sequences;
      return same_list(mine, key_side ? s.key(b) : s.query(b), its,
                       key_side ? t.key(b) : t.query(b), b, heads, width);
    };
    const int64_t heads = spec_.heads, groups = spec_.kv_heads, width = spec_.width;
    if (!same(output_, other.output_, false, heads, spec_.value_width) ||
        !same(lse_, other.lse_, false, heads, 1) ||
        !same(query_gradient_, other.query_gradient_, false, heads, width) ||
        !same(key_gradient_, other.key_gradient_, true, groups, width) ||
        !same(value_gradient_, other.value_gradient_, true, groups, spec_.value_width)) {
      return false;
    }
  }
  return true;
}

template <typename T>
bool Case<T>::same_results(const Case& other) const {
  return same_rows(other) && bias_gradient_.same_bits(other.bias_gradient_) &&
         weights_.same_bits(other.weights_);
}

template bool Case<float>::same_rows(const Case&) const;
template bool Case<float>::same_results(const Case&) const;
template bool Case<double>::same_rows(const Case&) const;
template bool Case<double>::same_results(const Case&) const;
template bool Case<kernels::BFloat16>::same_rows(const Case&) const;
template bool Case<kernels::BFloat16>::same_results(const Case&) const;
template bool Case<kernels::Half>::same_rows(const Case&) const;
template bool Case<kernels::Half>::same_results(const Case&) const;

}  // namespace headwise::testing
