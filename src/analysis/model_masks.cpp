#include "src/analysis/model_masks.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

#include "src/config/error.h"

namespace headwise::analysis {
namespace {

using nn::AttentionMasks;
using nn::AttentionOutput;

/// The first lengths[b] rows of each sequence of (B, T, E), end to end.
struct Packed {
  at::Tensor tokens, starts;
  at::Tensor sequence, position;  // (N) where each token was
};

Packed pack(const at::Tensor& padded, const std::optional<at::Tensor>& lengths) {
  const int64_t batch = padded.size(0), tokens = padded.size(1);
  const at::Tensor length = lengths ? lengths->to(at::kLong) : at::full({batch}, tokens, at::kLong);
  const at::Tensor place =
      at::arange(tokens).view({1, tokens}).lt(length.view({batch, 1})).nonzero();
  Packed packed{
      .tokens = {}, .starts = {}, .sequence = place.select(1, 0), .position = place.select(1, 1)};
  packed.tokens = padded.index({packed.sequence, packed.position});
  packed.starts = at::cat({at::zeros({1}, at::kLong), length.cumsum(0)}).to(at::kInt);
  return packed;
}

/// The module as a function of padded inputs that packs them, as the model does. Rows past a length
/// do not exist in the packed form: they give what a row gives that sees nothing.
AttentionFunction packed_form(nn::MultiHeadAttention module, const at::Tensor& empty_row) {
  return [module, empty_row](const at::Tensor& query, const at::Tensor& key,
                             const at::Tensor& value, const AttentionMasks& masks) mutable {
    const Packed queries = pack(query, masks.query_lengths), keys = pack(key, masks.key_lengths);
    const Packed values = pack(value, masks.key_lengths);
    const nn::PackedSequences sequences{queries.starts, keys.starts, query.size(1), key.size(1)};
    const at::Tensor rows =
        module->forward_packed(queries.tokens, keys.tokens, values.tokens, sequences,
                               {.causal = masks.causal, .hide = masks.hide});
    AttentionOutput result;
    result.output = empty_row.expand({query.size(0), query.size(1), rows.size(-1)}).clone();
    result.output.index_put_({queries.sequence, queries.position}, rows);
    result.weights = module->attention_weights_packed(queries.tokens, keys.tokens, sequences,
                                                      {.causal = masks.causal, .hide = masks.hide});
    return result;
  };
}

AttentionFunction padded_form(nn::MultiHeadAttention module) {
  return [module](const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const AttentionMasks& masks) mutable {
    return module->forward(query, key, value, masks, /*need_weights=*/true);
  };
}

/// Source and target sentences of random pieces; both know where they begin.
struct Sentences {
  model::PackedTokens source, target;
};

model::PackedTokens random_tokens(const std::vector<int64_t>& lengths, int64_t pieces) {
  std::vector<at::Tensor> positions;
  at::Tensor starts = at::zeros({int64_t(lengths.size()) + 1}, at::kInt);
  for (size_t b = 0; b < lengths.size(); ++b) {
    positions.push_back(at::arange(lengths[b]));
    starts[int64_t(b) + 1] = starts[int64_t(b)] + lengths[b];
  }
  const at::Tensor position = at::cat(positions);
  // Every piece differs from its neighbours; which pieces these are does not matter.
  const at::Tensor tokens = (at::arange(position.size(0)) * 7 + 1).remainder(pieces);
  return {tokens, position, starts, *std::max_element(lengths.begin(), lengths.end())};
}

/// Another piece at every place where `where` is true.
model::PackedTokens changed_where(const model::PackedTokens& tokens, const at::Tensor& where,
                                  int64_t pieces) {
  model::PackedTokens changed = tokens;
  changed.tokens = at::where(where, (tokens.tokens + 1).remainder(pieces), tokens.tokens);
  return changed;
}

/// (N): which sentence each token belongs to.
at::Tensor sentence_of(const model::PackedTokens& tokens) {
  return at::repeat_interleave(tokens.starts.diff().to(at::kLong));
}

/// (N): rows of (N, E) whose bits differ.
at::Tensor differ(const at::Tensor& a, const at::Tensor& b) {
  const at::ScalarType bits = a.element_size() == 8 ? at::kLong : at::kInt;
  return a.contiguous().view(bits).ne(b.contiguous().view(bits)).any(-1);
}

std::string blame(const at::Tensor& wrong, const char* what) {
  const int64_t rows = wrong.sum().item<int64_t>();
  if (rows == 0) return "";
  return text_of(what, " changed token ", wrong.nonzero()[0][0].item<int64_t>(), " (", rows,
                 " tokens)");
}

class ModelTrial {
 public:
  ModelTrial(model::Transformer model, const MaskTrial& trial) : model_(std::move(model)) {
    const int64_t queries = trial.queries, keys = trial.keys;
    source_ =
        random_tokens({keys, std::max<int64_t>(1, keys / 2), keys}, model_->source_vocabulary());
    target_ = random_tokens({std::max<int64_t>(1, queries / 2), queries, queries},
                            model_->target_vocabulary());
    longest_ = queries;
  }

  MaskReport run() {
    memory_ = model_->encode(source_);
    decoded_ = model_->decode(target_, memory_);
    if (!decoded_.isfinite().all().item<bool>()) {
      // NaN has the same bits whatever made it: comparing would find nothing.
      const char* found = "the decoder's states are NaN or infinite";
      return {"the whole model", "packed", {{"causal", found}, {"sequences", found}}};
    }
    return {"the whole model", "packed", {{"causal", causal()}, {"sequences", sequences()}}};
  }

 private:
  std::string causal() {
    for (int64_t i = 1; i < longest_; ++i) {
      const at::Tensor later = target_.positions.ge(i);
      const auto changed = changed_where(target_, later, model_->target_vocabulary());
      const at::Tensor wrong =
          differ(decoded_, model_->decode(changed, memory_)).logical_and(later.logical_not());
      const std::string found =
          blame(wrong, text_of("changing target tokens from place ", i, " on").c_str());
      if (!found.empty()) return found;
    }
    return "";
  }

  std::string sequences() {
    const at::Tensor source_sentence = sentence_of(source_), target_sentence = sentence_of(target_);
    for (int64_t b = 0; b < source_.starts.size(0) - 1; ++b) {
      const auto source =
          changed_where(source_, source_sentence.ne(b), model_->source_vocabulary());
      const auto target =
          changed_where(target_, target_sentence.ne(b), model_->target_vocabulary());
      const std::string what = text_of("of sentence ", b, ": changing the other sentences");
      const model::Memory memory = model_->encode(source);
      std::string found =
          blame(differ(memory_.states, memory.states).logical_and(source_sentence.eq(b)),
                ("encoder " + what).c_str());
      if (!found.empty()) return found;
      found =
          blame(differ(decoded_, model_->decode(target, memory)).logical_and(target_sentence.eq(b)),
                ("decoder " + what).c_str());
      if (!found.empty()) return found;
    }
    return "";
  }

  model::Transformer model_;
  model::PackedTokens source_, target_;
  model::Memory memory_;
  at::Tensor decoded_;
  int64_t longest_ = 0;
};

}  // namespace

std::vector<MaskReport> check_module_masks(const std::string& name, nn::MultiHeadAttention module,
                                           const MaskTrial& trial) {
  const nn::MultiHeadAttentionOptions& shape = module->options;
  MaskSubject subject;
  subject.name = name;
  subject.query_width = shape.embed_dim;
  subject.key_width = shape.kdim;
  subject.value_width = shape.vdim;
  subject.same_lengths = shape.rotary;
  subject.options = module->q_proj->weight.options().requires_grad(false);
  const bool biased = shape.out_proj && shape.bias;
  if (biased) subject.empty_row = module->out_proj->bias.detach();
  const at::Tensor empty_row =
      biased ? subject.empty_row : at::zeros({shape.embed_dim}, subject.options);

  subject.attend = padded_form(module);
  std::vector<MaskReport> reports = {{name, "padded", check_masks(subject, trial)}};
  subject.attend = packed_form(module, empty_row);
  reports.push_back({name, "packed", check_masks(subject, trial)});
  return reports;
}

std::vector<MaskReport> check_model_masks(model::Transformer model, const MaskTrial& trial) {
  const c10::NoGradGuard no_grad;
  std::vector<MaskReport> reports;
  const auto add = [&](const std::string& name, const nn::MultiHeadAttention& module) {
    for (MaskReport& report : check_module_masks(name, module, trial)) {
      reports.push_back(std::move(report));
    }
  };
  for (size_t i = 0; i < model->encoder.size(); ++i) {
    add(text_of("encoder ", i, " self"), model->encoder[i]->self_attention);
  }
  for (size_t i = 0; i < model->decoder.size(); ++i) {
    add(text_of("decoder ", i, " self"), model->decoder[i]->self_attention);
    add(text_of("decoder ", i, " cross"), model->decoder[i]->cross_attention);
  }
  reports.push_back(ModelTrial(model, trial).run());
  return reports;
}

std::vector<std::string> failures(const std::vector<MaskReport>& reports) {
  std::vector<std::string> lines;
  for (const MaskReport& report : reports) {
    for (const MaskCheck& check : report.checks) {
      if (check.passed()) continue;
      lines.push_back(
          text_of(report.module, ", ", report.form, ": ", check.name, ": ", check.found));
    }
  }
  return lines;
}

}  // namespace headwise::analysis
