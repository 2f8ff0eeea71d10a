#include "src/analysis/mask_cases.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <utility>

namespace headwise::analysis {
namespace {

MaskCase named(const char* name, nn::AttentionMasks masks, const MaskTrial& trial) {
  at::Tensor hidden = hidden_by(masks, trial);
  return {name, std::move(masks), std::move(hidden)};
}

/// (B): all, about half, one, all, … of `tokens`.
at::Tensor lengths(int64_t batch, int64_t tokens) {
  at::Tensor lengths = at::empty({batch}, at::kInt);
  for (int64_t b = 0; b < batch; ++b) {
    lengths[b] = b % 3 == 0 ? tokens : b % 3 == 1 ? (tokens + 1) / 2 : 1;
  }
  return lengths;
}

/// (B, 1, T_q, T_k): two keys of five, but for each row one that it may see.
at::Tensor random_hide(const MaskTrial& trial) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(trial.seed + 1);
  at::Tensor hide = at::rand({trial.batch, 1, trial.queries, trial.keys}, generator).lt(0.4);
  for (int64_t i = 0; i < trial.queries; ++i) hide.select(2, i).select(2, i % trial.keys) = false;
  return hide;
}

void add_lengths(nn::AttentionMasks& masks, const MaskTrial& trial, bool same_lengths) {
  masks.key_lengths = lengths(trial.batch, trial.keys);
  // Where queries and keys may differ they do, so that one is not taken for the other.
  masks.query_lengths =
      same_lengths ? *masks.key_lengths : lengths(trial.batch + 1, trial.queries).slice(0, 1);
}

}  // namespace

MaskInputs make_inputs(const MaskSubject& subject, const MaskTrial& trial, double deviation) {
  const at::Generator generator = at::make_generator<at::CPUGeneratorImpl>(trial.seed);
  const auto draw = [&](int64_t tokens, int64_t width) {
    return (at::randn({trial.batch, tokens, width}, generator, at::kDouble) * deviation)
        .to(subject.options);
  };
  return {draw(trial.queries, subject.query_width), draw(trial.keys, subject.key_width),
          draw(trial.keys, subject.value_width)};
}

at::Tensor hidden_by(const nn::AttentionMasks& masks, const MaskTrial& trial) {
  const int64_t batch = trial.batch, queries = trial.queries, keys = trial.keys;
  const auto length = [&](const std::optional<at::Tensor>& given, int64_t tokens) {
    const at::Tensor all = at::full({batch}, tokens, at::kLong);
    return (given ? given->to(at::kLong) : all).view({batch, 1, 1});
  };
  const at::Tensor row = at::arange(queries).view({1, queries, 1});
  const at::Tensor column = at::arange(keys).view({1, 1, keys});
  const at::Tensor query_length = length(masks.query_lengths, queries);
  const at::Tensor key_length = length(masks.key_lengths, keys);
  at::Tensor hidden = row.ge(query_length).logical_or(column.ge(key_length));
  // The last query stands at the last key.
  if (masks.causal) hidden = hidden.logical_or(column > row + key_length - query_length);
  if (masks.hide) hidden = hidden.logical_or(masks.hide->squeeze(1));
  return hidden.expand({batch, queries, keys}).contiguous();
}

MaskCase hide_case(const MaskTrial& trial) {
  nn::AttentionMasks masks;
  masks.hide = random_hide(trial);
  return named("hide mask", std::move(masks), trial);
}

MaskCase causal_case(const MaskTrial& trial) {
  nn::AttentionMasks masks;
  masks.causal = true;
  return named("causal mask", std::move(masks), trial);
}

MaskCase padding_case(const MaskTrial& trial, bool same_lengths) {
  nn::AttentionMasks masks;
  add_lengths(masks, trial, same_lengths);
  return named("lengths", std::move(masks), trial);
}

MaskCase combined_case(const MaskTrial& trial, bool same_lengths) {
  nn::AttentionMasks masks;
  masks.hide = random_hide(trial);
  masks.causal = true;
  add_lengths(masks, trial, same_lengths);
  return named("hide mask, causal mask and lengths", std::move(masks), trial);
}

MaskCase empty_rows_case(const MaskTrial& trial) {
  nn::AttentionMasks masks;
  at::Tensor hide = random_hide(trial);
  for (int64_t b = 0; b < trial.batch; ++b) {
    for (int64_t i = 0; i < trial.queries; ++i) {
      if (b == 1 || i % 3 == b % 3) hide[b][0][i] = true;  // sequence 1 sees nothing at all
    }
  }
  masks.hide = hide;
  return named("hide mask", std::move(masks), trial);
}

}  // namespace headwise::analysis
