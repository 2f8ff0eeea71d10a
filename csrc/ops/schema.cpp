// The schema of every op, and the C++ functions that call it. Keyword arguments have the defaults
// of attention.h.
#include <ATen/core/enum_tag.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <string>
#include <vector>

#include "csrc/kernels/attention/statistics.h"
#include "csrc/ops/dispatch.h"

namespace headwise {

namespace {

const std::string kMasks =
    "Tensor? hide=None, Tensor? keep=None, Tensor? bias=None, bool causal=False, str "
    "align=\"end\", "
    "int[]? window=None, float? scale=None";
const std::string kDropout = "float dropout=0.0, Tensor? seed=None, SymInt offset=0";
const std::string kInputs = "Tensor query, Tensor key, Tensor value, ";
const std::string kLengths = "*, Tensor? query_lengths=None, Tensor? key_lengths=None, ";
const std::string kStarts =
    "Tensor query_starts, Tensor key_starts, SymInt max_query, SymInt max_key, *, ";
const std::string kSaved =
    "Tensor output_gradient, Tensor? lse_gradient, Tensor output, Tensor lse, bool bias_gradient, ";

const std::string kPadded = kInputs + kLengths + kMasks + ", " + kDropout;
const std::string kPacked = kInputs + kStarts + kMasks + ", " + kDropout;
const std::string kPair = ") -> (Tensor output, Tensor lse)";
const std::string kGradients =
    ") -> (Tensor query_gradient, Tensor key_gradient, Tensor value_gradient, Tensor "
    "bias_gradient)";

/// The packed ops have no arguments for lengths, so options that hold them must not pass in
/// silence.
ops::Packing packing_of(const at::Tensor& query_starts, const at::Tensor& key_starts,
                        int64_t max_query, int64_t max_key, const AttentionOptions& options) {
  TORCH_CHECK_VALUE(
      !options.query_lengths.has_value() && !options.key_lengths.has_value(),
      "attention_packed: ", options.query_lengths.has_value() ? "query_lengths" : "key_lengths",
      " came; the starts tell the lengths of packed sequences, give no others");
  return {query_starts, key_starts, max_query, max_key};
}

}  // namespace

TORCH_LIBRARY(headwise, m) {
  const auto define = [&](const std::string& schema) {
    m.def(schema.c_str(), {at::Tag::pt2_compliant_tag});
  };
  define("attention(" + kPadded + kPair);
  define("attention_packed(" + kPacked + kPair);
  define("attention_forward(" + kPadded + kPair);
  define("attention_packed_forward(" + kPacked + kPair);
  define("attention_backward(" + kSaved + kPadded + kGradients);
  define("attention_packed_backward(" + kSaved + kPacked + kGradients);
  define("attention_weights(Tensor query, Tensor key, Tensor lse, " + kLengths + kMasks +
         ") -> Tensor");
  define("attention_weights_packed(Tensor query, Tensor key, Tensor lse, " + kStarts + kMasks +
         ") -> Tensor");
  define("attention_statistics(Tensor query, Tensor key, Tensor value, Tensor lse, " + kLengths +
         kMasks + ") -> Tensor");
  define("attention_statistics_packed(Tensor query, Tensor key, Tensor value, Tensor lse, " +
         kStarts + kMasks + ") -> Tensor");
  // Nothing to compile: a sentence about a call.
  m.def(("explain(" + kPadded + ") -> str").c_str());
  m.def(("explain_packed(" + kPacked + ") -> str").c_str());
  define(
      "attention_decode(Tensor query, Tensor key_cache, Tensor value_cache, Tensor lengths, *, "
      "bool causal=True, int[]? window=None, Tensor? bias=None, Tensor? hide=None, "
      "Tensor? beam_index=None, float? scale=None" +
      kPair);
  define(
      "cache_append(Tensor(a!) key_cache, Tensor(b!) value_cache, Tensor key, Tensor value, "
      "Tensor lengths, SymInt? max_length=None) -> ()");
}

AttentionResult attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const AttentionOptions& options) {
  auto [output, lse] = ops::AttentionOp::call({query, key, value, std::nullopt, options});
  return {output, lse};
}

AttentionResult attention_packed(const at::Tensor& query, const at::Tensor& key,
                                 const at::Tensor& value, const at::Tensor& query_starts,
                                 const at::Tensor& key_starts, int64_t max_query, int64_t max_key,
                                 const AttentionOptions& options) {
  const ops::Packing packing = packing_of(query_starts, key_starts, max_query, max_key, options);
  auto [output, lse] = ops::AttentionOp::call({query, key, value, packing, options});
  return {output, lse};
}

at::Tensor attention_weights(const at::Tensor& query, const at::Tensor& key, const at::Tensor& lse,
                             const AttentionOptions& options) {
  return ops::WeightsOp::call({query, key, at::Tensor(), std::nullopt, options}, lse);
}

at::Tensor attention_weights_packed(const at::Tensor& query, const at::Tensor& key,
                                    const at::Tensor& lse, const at::Tensor& query_starts,
                                    const at::Tensor& key_starts, int64_t max_query,
                                    int64_t max_key, const AttentionOptions& options) {
  const ops::Packing packing = packing_of(query_starts, key_starts, max_query, max_key, options);
  return ops::WeightsOp::call({query, key, at::Tensor(), packing, options}, lse);
}

at::Tensor attention_statistics(const at::Tensor& query, const at::Tensor& key,
                                const at::Tensor& value, const at::Tensor& lse,
                                const AttentionOptions& options) {
  return ops::StatisticsOp::call({query, key, at::Tensor(), std::nullopt, options}, value, lse);
}

at::Tensor attention_statistics_packed(const at::Tensor& query, const at::Tensor& key,
                                       const at::Tensor& value, const at::Tensor& lse,
                                       const at::Tensor& query_starts, const at::Tensor& key_starts,
                                       int64_t max_query, int64_t max_key,
                                       const AttentionOptions& options) {
  const ops::Packing packing = packing_of(query_starts, key_starts, max_query, max_key, options);
  return ops::StatisticsOp::call({query, key, at::Tensor(), packing, options}, value, lse);
}

std::vector<std::string> statistics_names() { return kernels::statistics_names(); }

std::string explain(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const AttentionOptions& options) {
  return ops::ExplainOp::call({query, key, value, std::nullopt, options});
}

std::string explain_packed(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           const at::Tensor& query_starts, const at::Tensor& key_starts,
                           int64_t max_query, int64_t max_key, const AttentionOptions& options) {
  const ops::Packing packing = packing_of(query_starts, key_starts, max_query, max_key, options);
  return ops::ExplainOp::call({query, key, value, packing, options});
}

AttentionResult attention_decode(const at::Tensor& query, const at::Tensor& key_cache,
                                 const at::Tensor& value_cache, const at::Tensor& lengths,
                                 const DecodeOptions& o) {
  static const auto op = ops::find_op<ops::DecodeSignature>("headwise::attention_decode");
  auto [output, lse] = op.call(query, key_cache, value_cache, lengths, o.causal,
                               ops::window_list(o.window), o.bias, o.hide, o.beam_index, o.scale);
  return {output, lse};
}

void cache_append(const at::Tensor& key_cache, const at::Tensor& value_cache, const at::Tensor& key,
                  const at::Tensor& value, const at::Tensor& lengths,
                  std::optional<int64_t> max_length) {
  static const auto op = ops::find_op<ops::CacheAppendSignature>("headwise::cache_append");
  std::optional<c10::SymInt> longest;
  if (max_length.has_value()) longest = *max_length;
  op.call(key_cache, value_cache, key, value, lengths, longest);
}

}  // namespace headwise
