#include "csrc/nn/multi_head_attention.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <torch/nn/init.h>

#include "csrc/nn/linear_layers.h"
#include "csrc/ops/attention.h"

namespace headwise::nn {
namespace {

void check_input(const at::Tensor& input, const char* name, int64_t dims, int64_t width) {
  TORCH_CHECK_VALUE(input.dim() == dims && input.size(-1) == width, name, " must have ", dims,
                    " axes, the last of width ", width, "; got shape ", input.sizes());
}

void check_rotary(const MultiHeadAttentionOptions& options, int64_t queries, int64_t keys) {
  TORCH_CHECK_VALUE(!options.rotary || queries == keys,
                    "rotary positions are for self-attention: as many queries as keys; got ",
                    queries, " queries and ", keys, " keys");
}

at::Tensor head_factor(const at::Tensor& factor, const char* name, const at::Tensor& heads) {
  TORCH_CHECK_VALUE(factor.dim() == 1 && factor.size(0) == heads.size(-2), name,
                    " must have one entry for each of ", heads.size(-2), " heads; got shape ",
                    factor.sizes());
  return factor.to(heads.options()).unsqueeze(-1);
}

AttentionOptions visible_in(const PackedRules& rules) {
  AttentionOptions options;
  options.hide = rules.hide;
  options.causal = rules.causal;
  return options;
}

/// heads (…, H, D) between the op and W_O.
at::Tensor intervene(const at::Tensor& heads, const HeadIntervention& change) {
  if (!change.gate) {
    TORCH_CHECK_VALUE(!change.replacement, "a replacement needs a gate that lets it through");
    return heads;
  }
  const at::Tensor gate = head_factor(*change.gate, "gate", heads);
  if (!change.replacement) return gate * heads;
  const at::Tensor& replacement = *change.replacement;
  TORCH_CHECK_VALUE(replacement.dim() == 2 && replacement.size(0) == heads.size(-2) &&
                        replacement.size(1) == heads.size(-1),
                    "replacement must have shape (", heads.size(-2), ", ", heads.size(-1),
                    "); got ", replacement.sizes());
  return gate * heads + (1 - gate) * replacement.to(heads.options());
}

}  // namespace

MultiHeadAttentionImpl::MultiHeadAttentionImpl(const MultiHeadAttentionOptions& given)
    : options(resolved(given)) {
  reset();
}

void MultiHeadAttentionImpl::reset() {
  const MultiHeadAttentionOptions& o = options;
  const int64_t heads_width = o.num_heads * o.head_dim, kv_width = o.num_kv_heads * o.head_dim;
  const auto linear = [&](const char* name, int64_t in, int64_t out) {
    const auto shape = torch::nn::LinearOptions(in, out).bias(o.bias);
    return register_module(name, torch::nn::Linear(shape));
  };
  q_proj = linear("q_proj", o.embed_dim, heads_width);
  k_proj = linear("k_proj", o.kdim, kv_width);
  v_proj = linear("v_proj", o.vdim, kv_width);
  if (o.out_proj) out_proj = linear("out_proj", heads_width, o.embed_dim);
  reset_parameters();
}

void MultiHeadAttentionImpl::reset_parameters() {
  for (const torch::nn::Linear& layer : {q_proj, k_proj, v_proj, out_proj}) {
    if (layer.is_empty()) continue;
    torch::nn::init::xavier_uniform_(layer->weight);
    if (options.bias) torch::nn::init::zeros_(layer->bias);
  }
}

AttentionOutput MultiHeadAttentionImpl::forward(const at::Tensor& query, const at::Tensor& key,
                                                const at::Tensor& value,
                                                const AttentionMasks& masks, bool need_weights) {
  check_input(query, "query", 3, options.embed_dim);
  check_input(key, "key", 3, options.kdim);
  check_input(value, "value", 3, options.vdim);
  check_rotary(options, query.size(1), key.size(1));
  const RotaryTable table =
      options.rotary ? turns_of(at::arange(key.size(1), key.options().dtype(at::kLong)), key)
                     : RotaryTable();
  // Views: the op takes any strides.
  const at::Tensor q = project_query(query, table).transpose(1, 2);
  const at::Tensor k = project_key(key, table).transpose(1, 2);
  const at::Tensor v = project_value(value).transpose(1, 2);

  AttentionOptions rules;
  rules.hide = masks.hide;
  rules.query_lengths = masks.query_lengths;
  rules.key_lengths = masks.key_lengths;
  rules.causal = masks.causal;
  rules.dropout = active_dropout();
  const auto [heads, lse] = headwise::attention(q, k, v, rules);
  AttentionOutput result;
  result.output = project_output(heads.transpose(1, 2));
  if (need_weights) result.weights = headwise::attention_weights(q, k, lse, rules);
  return result;
}

at::Tensor MultiHeadAttentionImpl::forward_packed(const at::Tensor& query, const at::Tensor& key,
                                                  const at::Tensor& value,
                                                  const PackedSequences& sequences,
                                                  const PackedRules& rules) {
  check_input(value, "value", 2, options.vdim);
  const RotaryTable table = check_packed(query, key, sequences);
  const auto [q, k, v] = projections(query, key, value);
  AttentionOptions call = visible_in(rules);
  call.dropout = active_dropout();
  call.seed = rules.seed;
  call.offset = rules.offset;
  const at::Tensor heads =
      attention_packed(query_heads(q, table), key_heads(k, table), value_heads(v),
                       sequences.query_starts, sequences.key_starts, sequences.max_query,
                       sequences.max_key, call)
          .output;
  if (!in_bfloat16() || out_proj.is_empty()) return project_output(heads);
  return linear_layers_bfloat16(merge_heads(heads), {out_proj})[0];
}

at::Tensor MultiHeadAttentionImpl::attention_weights_packed(const at::Tensor& query,
                                                            const at::Tensor& key,
                                                            const PackedSequences& sequences,
                                                            const PackedRules& rules) {
  const RotaryTable table = check_packed(query, key, sequences);
  const at::Tensor q = project_query(query, table), k = project_key(key, table);
  const AttentionOptions call = visible_in(rules);
  const PackedSequences& s = sequences;
  // The log-sum-exp does not depend on the values: the keys stand in for them.
  const at::Tensor lse =
      attention_packed(q, k, k, s.query_starts, s.key_starts, s.max_query, s.max_key, call).lse;
  return headwise::attention_weights_packed(q, k, lse, s.query_starts, s.key_starts, s.max_query,
                                            s.max_key, call);
}

RotaryTable MultiHeadAttentionImpl::check_packed(const at::Tensor& query, const at::Tensor& key,
                                                 const PackedSequences& sequences) {
  check_input(query, "query", 2, options.embed_dim);
  check_input(key, "key", 2, options.kdim);
  check_rotary(options, query.size(0), key.size(0));
  if (!options.rotary) return {};
  return turns_of(packed_positions(sequences.key_starts, key.size(0)), key);
}

RotaryTable MultiHeadAttentionImpl::turns_of(const at::Tensor& positions,
                                             const at::Tensor& tokens) {
  return rotary_table(positions, options.head_dim, tokens.scalar_type());
}

std::array<at::Tensor, 3> MultiHeadAttentionImpl::projections(const at::Tensor& query,
                                                              const at::Tensor& key,
                                                              const at::Tensor& value) {
  if (!in_bfloat16()) return {q_proj->forward(query), k_proj->forward(key), v_proj->forward(value)};
  // Layers that share an input share its conversion.
  std::vector<at::Tensor> found;
  const auto project = [&](const at::Tensor& x, at::ArrayRef<torch::nn::Linear> layers) {
    for (at::Tensor& y : linear_layers_bfloat16(x, layers)) found.push_back(std::move(y));
  };
  if (query.is_same(key) && key.is_same(value)) {
    project(query, {q_proj, k_proj, v_proj});
  } else {
    project(query, {q_proj});
    if (key.is_same(value)) {
      project(key, {k_proj, v_proj});
    } else {
      project(key, {k_proj});
      project(value, {v_proj});
    }
  }
  return {found[0], found[1], found[2]};
}

at::Tensor MultiHeadAttentionImpl::project_query(const at::Tensor& query,
                                                 const RotaryTable& turns) {
  return query_heads(q_proj->forward(query), turns);
}

at::Tensor MultiHeadAttentionImpl::project_key(const at::Tensor& key, const RotaryTable& turns) {
  return key_heads(k_proj->forward(key), turns);
}

at::Tensor MultiHeadAttentionImpl::project_value(const at::Tensor& value) {
  return value_heads(v_proj->forward(value));
}

at::Tensor MultiHeadAttentionImpl::query_heads(const at::Tensor& projected,
                                               const RotaryTable& turns) {
  at::Tensor heads =
      rotate_by_position(projected.unflatten(-1, {options.num_heads, options.head_dim}), turns);
  if (intervention && intervention->query_factor) {
    heads = heads * head_factor(*intervention->query_factor, "query_factor", heads);
  }
  return heads;
}

at::Tensor MultiHeadAttentionImpl::key_heads(const at::Tensor& projected,
                                             const RotaryTable& turns) {
  return rotate_by_position(projected.unflatten(-1, {options.num_kv_heads, options.head_dim}),
                            turns);
}

at::Tensor MultiHeadAttentionImpl::value_heads(const at::Tensor& projected) {
  return projected.unflatten(-1, {options.num_kv_heads, options.head_dim});
}

at::Tensor MultiHeadAttentionImpl::project_output(const at::Tensor& heads) {
  const at::Tensor merged = merge_heads(heads);
  return out_proj.is_empty() ? merged : out_proj->forward(merged);
}

at::Tensor MultiHeadAttentionImpl::merge_heads(const at::Tensor& heads) {
  const at::Tensor changed = intervention ? intervene(heads, *intervention) : heads;
  // The op writes (…, T, H, D) memory, so this is a view; it throws rather than copy.
  at::DimVector merged(changed.sizes().begin(), changed.sizes().end() - 1);
  merged.back() = changed.size(-2) * changed.size(-1);
  return changed.view(merged);
}

}  // namespace headwise::nn
