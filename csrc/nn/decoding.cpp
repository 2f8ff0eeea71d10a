// The cached half of MultiHeadAttention: one or a few new tokens against what came before.
#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "csrc/nn/multi_head_attention.h"
#include "csrc/nn/rotary.h"
#include "csrc/ops/attention.h"

namespace headwise::nn {
namespace {

constexpr int64_t kMaxTokensPerCall = 8;  // of attention_decode

void check_inference(const at::Tensor& query_heads, const char* method) {
  TORCH_CHECK(!(c10::GradMode::is_enabled() && query_heads.requires_grad()), method,
              " has no backward: call it under torch::NoGradGuard");
}

/// query (R, T, H, D), any T: `attend(chunk, end)` gets (R, H, t, D) for the tokens end - t … end -
/// 1 and gives (R, H, t, D). Returns (R, T, H, D).
template <typename Attend>
at::Tensor in_chunks(const at::Tensor& query, const Attend& attend) {
  const int64_t tokens = query.size(1);
  std::vector<at::Tensor> parts;
  for (int64_t begin = 0; begin < tokens; begin += kMaxTokensPerCall) {
    const int64_t end = std::min(begin + kMaxTokensPerCall, tokens);
    parts.push_back(attend(query.slice(1, begin, end).transpose(1, 2), end).transpose(1, 2));
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts, 1);
}

void check_step(const at::Tensor& query, int64_t width) {
  TORCH_CHECK_VALUE(query.dim() == 3 && query.size(1) > 0 && query.size(2) == width,
                    "query must have shape (R, T, ", width, ") with T of at least 1; got ",
                    query.sizes());
}

}  // namespace

at::Tensor MultiHeadAttentionImpl::forward_step(const at::Tensor& query, KeyValueCache& cache) {
  check_step(query, options.embed_dim);
  TORCH_CHECK_VALUE(options.kdim == options.embed_dim && options.vdim == options.embed_dim,
                    "forward_step is self-attention: kdim ", options.kdim, " and vdim ",
                    options.vdim, " must equal embed_dim ", options.embed_dim);
  const int64_t before = cache.length(), rows = query.size(0), tokens = query.size(1);
  const RotaryTable table =
      options.rotary
          ? turns_of(at::arange(before, before + tokens, query.options().dtype(at::kLong)), query)
          : RotaryTable();
  const at::Tensor q = project_query(query, table);
  check_inference(q, "forward_step");
  cache.append(project_key(query, table).transpose(1, 2), project_value(query).transpose(1, 2));

  DecodeOptions rules;
  rules.beam_index = cache.beam_index();
  return project_output(in_chunks(q, [&](const at::Tensor& chunk, int64_t end) {
    // The whole prefix is in the cache already; the length up to this chunk keeps it causal.
    const at::Tensor lengths = at::full({rows}, before + end, query.options().dtype(at::kInt));
    return attention_decode(chunk, cache.keys(), cache.values(), lengths, rules).output;
  }));
}

CrossCache MultiHeadAttentionImpl::cross_cache(const at::Tensor& key, const at::Tensor& value,
                                               const at::Tensor& key_starts, int64_t max_key) {
  TORCH_CHECK_VALUE(!options.rotary, "rotary positions are for self-attention: no cross_cache");
  TORCH_CHECK_VALUE(key.dim() == 2 && key.size(1) == options.kdim && value.dim() == 2 &&
                        value.size(1) == options.vdim && key.size(0) == value.size(0),
                    "cross_cache takes key (N, ", options.kdim, ") and value (N, ", options.vdim,
                    "); got ", key.sizes(), " and ", value.sizes());
  TORCH_CHECK_VALUE(key_starts.dim() == 1 && key_starts.size(0) > 0,
                    "key_starts must have shape (B + 1); got ", key_starts.sizes());
  const at::Tensor lengths = key_starts.diff();
  const int64_t sentences = lengths.size(0);
  const int64_t longest = sentences == 0 ? 0 : lengths.max().item<int64_t>();
  TORCH_CHECK_VALUE(longest <= max_key, "max_key ", max_key,
                    " is shorter than the longest sentence, ", longest);

  const at::Tensor position = packed_positions(key_starts, key.size(0));
  const at::Tensor sentence = at::repeat_interleave(
      lengths.to(at::kLong), /*output_size=*/std::optional<int64_t>(key.size(0)));
  const auto unpacked = [&](const at::Tensor& heads) {
    at::Tensor padded =
        at::zeros({sentences, heads.size(1), max_key, heads.size(2)}, heads.options());
    padded.transpose(1, 2).index_put_({sentence, position}, heads);
    return padded;
  };
  const at::Tensor keys = project_key(key, {}), values = project_value(value);
  check_inference(keys, "cross_cache");
  return {unpacked(keys), unpacked(values), lengths.to(at::kInt)};
}

at::Tensor MultiHeadAttentionImpl::forward_cross_step(const at::Tensor& query,
                                                      const CrossCache& cache,
                                                      const at::Tensor& rows) {
  check_step(query, options.embed_dim);
  TORCH_CHECK_VALUE(rows.dim() == 1 && rows.size(0) == query.size(0),
                    "rows must name the sentence of each of ", query.size(0),
                    " query rows; got shape ", rows.sizes());
  const at::Tensor q = project_query(query, {});
  check_inference(q, "forward_cross_step");
  DecodeOptions rules;
  rules.causal = false;
  rules.beam_index = rows;
  const at::Tensor lengths = cache.lengths.index_select(0, rows);
  return project_output(in_chunks(q, [&](const at::Tensor& chunk, int64_t) {
    return attention_decode(chunk, cache.keys, cache.values, lengths, rules).output;
  }));
}

}  // namespace headwise::nn
