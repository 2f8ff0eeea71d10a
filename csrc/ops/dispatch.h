// Between the dispatcher's long argument lists and Call. Each list stands here once for the way in
// (Padded, Packed, …: kernels to register) and once as a type for the way out (Op: calls by name),
// both in the order of schema.cpp.
#pragma once

#include <string>
#include <utility>

#include "csrc/ops/call.h"
#include "csrc/ops/find_op.h"

namespace headwise::ops {

/// The mask arguments that all forms share.
struct MaskArguments {
  const OptionalTensor &hide, &keep, &bias;
  bool causal;
  std::string_view align;
  at::OptionalIntArrayRef window;
  std::optional<double> scale;

  AttentionOptions options() const {
    AttentionOptions options;
    options.hide = hide;
    options.keep = keep;
    options.bias = bias;
    options.causal = causal;
    options.align = parse_align(align);
    options.window = parse_window(window);
    options.scale = scale;
    return options;
  }
};

/// Kernel made of Core(const Call&, Extra...), padded form.
template <auto Core>
struct Padded;
template <typename Result, typename... Extra, Result (*Core)(const Call&, Extra...)>
struct Padded<Core> {
  static Result call(Extra... extra, const at::Tensor& query, const at::Tensor& key,
                     const at::Tensor& value, const OptionalTensor& query_lengths,
                     const OptionalTensor& key_lengths, const OptionalTensor& hide,
                     const OptionalTensor& keep, const OptionalTensor& bias, bool causal,
                     std::string_view align, at::OptionalIntArrayRef window,
                     std::optional<double> scale, double dropout, const OptionalTensor& seed,
                     c10::SymInt offset) {
    Call call{query, key, value, std::nullopt,
              MaskArguments{hide, keep, bias, causal, align, window, scale}.options()};
    call.options.query_lengths = query_lengths;
    call.options.key_lengths = key_lengths;
    call.options.dropout = dropout;
    call.options.seed = seed;
    call.options.offset = std::move(offset);
    return Core(call, extra...);
  }
};

/// The same for the packed form.
template <auto Core>
struct Packed;
template <typename Result, typename... Extra, Result (*Core)(const Call&, Extra...)>
struct Packed<Core> {
  static Result call(Extra... extra, const at::Tensor& query, const at::Tensor& key,
                     const at::Tensor& value, const at::Tensor& query_starts,
                     const at::Tensor& key_starts, c10::SymInt max_query, c10::SymInt max_key,
                     const OptionalTensor& hide, const OptionalTensor& keep,
                     const OptionalTensor& bias, bool causal, std::string_view align,
                     at::OptionalIntArrayRef window, std::optional<double> scale, double dropout,
                     const OptionalTensor& seed, c10::SymInt offset) {
    Call call{query, key, value,
              Packing{query_starts, key_starts, std::move(max_query), std::move(max_key)},
              MaskArguments{hide, keep, bias, causal, align, window, scale}.options()};
    call.options.dropout = dropout;
    call.options.seed = seed;
    call.options.offset = std::move(offset);
    return Core(call, extra...);
  }
};

/// Ops that look at the weights: Core(const Call&, Looked...) with what follows query and key (the
/// log-sum-exp and, before it, the values) and no dropout. Padded form.
template <auto Core>
struct PaddedLook;
template <typename... Looked, at::Tensor (*Core)(const Call&, Looked...)>
struct PaddedLook<Core> {
  static at::Tensor call(const at::Tensor& query, const at::Tensor& key, Looked... looked,
                         const OptionalTensor& query_lengths, const OptionalTensor& key_lengths,
                         const OptionalTensor& hide, const OptionalTensor& keep,
                         const OptionalTensor& bias, bool causal, std::string_view align,
                         at::OptionalIntArrayRef window, std::optional<double> scale) {
    Call call{query, key, at::Tensor(), std::nullopt,
              MaskArguments{hide, keep, bias, causal, align, window, scale}.options()};
    call.options.query_lengths = query_lengths;
    call.options.key_lengths = key_lengths;
    return Core(call, looked...);
  }
};

/// The same for the packed form.
template <auto Core>
struct PackedLook;
template <typename... Looked, at::Tensor (*Core)(const Call&, Looked...)>
struct PackedLook<Core> {
  static at::Tensor call(const at::Tensor& query, const at::Tensor& key, Looked... looked,
                         const at::Tensor& query_starts, const at::Tensor& key_starts,
                         c10::SymInt max_query, c10::SymInt max_key, const OptionalTensor& hide,
                         const OptionalTensor& keep, const OptionalTensor& bias, bool causal,
                         std::string_view align, at::OptionalIntArrayRef window,
                         std::optional<double> scale) {
    const Call call{query, key, at::Tensor(),
                    Packing{query_starts, key_starts, std::move(max_query), std::move(max_key)},
                    MaskArguments{hide, keep, bias, causal, align, window, scale}.options()};
    return Core(call, looked...);
  }
};

template <typename Result, typename... Extra>
using PaddedSignature = Result(Extra..., const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                               const OptionalTensor&, const OptionalTensor&, bool, std::string_view,
                               at::OptionalIntArrayRef, std::optional<double>, double,
                               const OptionalTensor&, c10::SymInt);
template <typename Result, typename... Extra>
using PackedSignature = Result(Extra..., const at::Tensor&, const at::Tensor&, const at::Tensor&,
                               const at::Tensor&, const at::Tensor&, c10::SymInt, c10::SymInt,
                               const OptionalTensor&, const OptionalTensor&, const OptionalTensor&,
                               bool, std::string_view, at::OptionalIntArrayRef,
                               std::optional<double>, double, const OptionalTensor&, c10::SymInt);

using DecodeSignature = TensorPair(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                   const at::Tensor&, bool, at::OptionalIntArrayRef,
                                   const OptionalTensor&, const OptionalTensor&,
                                   const OptionalTensor&, std::optional<double>);
/// The caches are written to; a Tensor is a handle, so const says nothing about its numbers.
using CacheAppendSignature = void(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                  const at::Tensor&, const at::Tensor&, std::optional<c10::SymInt>);

/// Calls the padded or the packed op of these names through the dispatcher.
template <const char* kPadded, const char* kPacked, typename Signature>
struct Op;
template <const char* kPadded, const char* kPacked, typename Result, typename... Extra>
struct Op<kPadded, kPacked, Result(Extra...)> {
  static Result call(const Call& c, Extra... extra) {
    const AttentionOptions& o = c.options;
    if (!c.packed()) {
      static const auto op = find_op<PaddedSignature<Result, Extra...>>(kPadded);
      return op.call(extra..., c.query, c.key, c.value, o.query_lengths, o.key_lengths, o.hide,
                     o.keep, o.bias, o.causal, align_word(o.align), window_list(o.window), o.scale,
                     o.dropout, o.seed, o.offset);
    }
    static const auto op = find_op<PackedSignature<Result, Extra...>>(kPacked);
    const Packing& p = *c.packing;
    return op.call(extra..., c.query, c.key, c.value, p.query_starts, p.key_starts, p.max_query,
                   p.max_key, o.hide, o.keep, o.bias, o.causal, align_word(o.align),
                   window_list(o.window), o.scale, o.dropout, o.seed, o.offset);
  }
};

/// Calls the padded or the packed op of these names that looks at the weights.
template <const char* kPadded, const char* kPacked, typename... Looked>
struct LookOp {
  static at::Tensor call(const Call& c, Looked... looked) {
    using Core = at::Tensor (*)(const Call&, Looked...);
    const AttentionOptions& o = c.options;
    if (!c.packed()) {
      static const auto op = find_op<decltype(PaddedLook<Core{}>::call)>(kPadded);
      return op.call(c.query, c.key, looked..., o.query_lengths, o.key_lengths, o.hide, o.keep,
                     o.bias, o.causal, align_word(o.align), window_list(o.window), o.scale);
    }
    static const auto op = find_op<decltype(PackedLook<Core{}>::call)>(kPacked);
    const Packing& p = *c.packing;
    return op.call(c.query, c.key, looked..., p.query_starts, p.key_starts, p.max_query, p.max_key,
                   o.hide, o.keep, o.bias, o.causal, align_word(o.align), window_list(o.window),
                   o.scale);
  }
};

inline constexpr char kAttention[] = "headwise::attention";
inline constexpr char kPackedAttention[] = "headwise::attention_packed";
inline constexpr char kForward[] = "headwise::attention_forward";
inline constexpr char kPackedForward[] = "headwise::attention_packed_forward";
inline constexpr char kBackward[] = "headwise::attention_backward";
inline constexpr char kPackedBackward[] = "headwise::attention_packed_backward";
inline constexpr char kWeights[] = "headwise::attention_weights";
inline constexpr char kPackedWeights[] = "headwise::attention_weights_packed";
inline constexpr char kStatistics[] = "headwise::attention_statistics";
inline constexpr char kPackedStatistics[] = "headwise::attention_statistics_packed";
inline constexpr char kExplain[] = "headwise::explain";
inline constexpr char kPackedExplain[] = "headwise::explain_packed";

using AttentionOp = Op<kAttention, kPackedAttention, TensorPair()>;
using ForwardOp = Op<kForward, kPackedForward, TensorPair()>;
/// (output_gradient, lse_gradient, output, lse, bias_gradient)
using BackwardOp = Op<kBackward, kPackedBackward,
                      TensorQuad(const at::Tensor&, const OptionalTensor&, const at::Tensor&,
                                 const at::Tensor&, bool)>;
using ExplainOp = Op<kExplain, kPackedExplain, std::string()>;
/// (lse)
using WeightsOp = LookOp<kWeights, kPackedWeights, const at::Tensor&>;
/// (value, lse); the call has no value of its own
using StatisticsOp = LookOp<kStatistics, kPackedStatistics, const at::Tensor&, const at::Tensor&>;

}  // namespace headwise::ops
