#include "src/config/relations.h"

#include <utility>

#include "src/config/error.h"
#include "src/config/format.h"
#include "src/config/layer_shape.h"

namespace headwise::config {
namespace {

using Conflicts = std::vector<Conflict>;

void check_data(const Config& config, Conflicts& out) {
  const DataConfig& data = config.data;
  const bool validates = config.validation.every > 0;
  if (data.kind == DataKind::kEmbedded) {
    if (validates && data.embedded_valid == 0) {
      out.push_back({{"data.embedded_valid", "validation.every"},
                     text_of("found 0 with validation.every = ", config.validation.every,
                             "; needed validation pairs, or validation.every = 0")});
    }
    return;
  }
  const std::pair<const char*, const std::string*> training[] = {
      {"data.train_source", &data.train_source}, {"data.train_target", &data.train_target}};
  for (const auto& [key, path] : training) {
    if (path->empty()) {
      out.push_back(
          {{key, "data.kind"},
           "found no file; needed one (or data.kind = \"embedded\" for the built-in text)"});
    }
  }
  const std::pair<const char*, const std::string*> validation[] = {
      {"data.valid_source", &data.valid_source}, {"data.valid_target", &data.valid_target}};
  const bool any = !data.valid_source.empty() || !data.valid_target.empty();
  for (const auto& [key, path] : validation) {
    if (path->empty() && (validates || any)) {
      out.push_back({{key, "data.kind", "validation.every"},
                     any ? "found no file; needed one for each side, or none for both"
                         : "found no file; needed one, or validation.every = 0"});
    }
  }
}

/// A given model says itself what it is; the trainer asks it.
void check_subword_dropout(const SubwordConfig& subword, Conflicts& out) {
  const bool trained = subword.joint ? subword.model.empty() : subword.source_model.empty();
  if (!trained || subword.type == SubwordType::kBpe) return;
  const std::pair<const char*, double> dropouts[] = {
      {"subword.source_dropout", subword.source_dropout},
      {"subword.target_dropout", subword.target_dropout}};
  for (const auto& [key, dropout] : dropouts) {
    if (dropout == 0) continue;
    out.push_back({{key, "subword.type"},
                   text_of("found ", dropout, " with subword.type = \"unigram\"; needed 0, or ",
                           "type = \"bpe\", whose merges can be left out")});
  }
}

void check_subword(const SubwordConfig& subword, Conflicts& out) {
  if (subword.joint && (!subword.source_model.empty() || !subword.target_model.empty())) {
    const char* key =
        subword.source_model.empty() ? "subword.target_model" : "subword.source_model";
    out.push_back(
        {{key, "subword.joint"},
         "found a file with subword.joint = true; needed subword.model, or joint = false"});
  }
  if (!subword.joint && !subword.model.empty()) {
    out.push_back(
        {{"subword.model", "subword.joint"},
         "found a file with subword.joint = false; needed source_model and target_model"});
  }
  if (!subword.joint && subword.source_model.empty() != subword.target_model.empty()) {
    const bool source = subword.source_model.empty();
    out.push_back({{source ? "subword.source_model" : "subword.target_model", "subword.joint"},
                   "found no file; needed one for each side, or none for both"});
  }
  constexpr int64_t kBytesAndSpecials = 256 + 4;
  if (subword.byte_fallback && subword.vocabulary <= kBytesAndSpecials) {
    out.push_back(
        {{"subword.vocabulary", "subword.byte_fallback"},
         text_of("found ", subword.vocabulary, " with byte_fallback = true; needed more than ",
                 kBytesAndSpecials, " (256 bytes and 4 special pieces)")});
  }
  check_subword_dropout(subword, out);
}

/// One of the three attentions: its keys and its layers.
struct Attention {
  std::string heads_key, kv_key, layers_key;
  const std::vector<int64_t>& heads;
  const std::vector<int64_t>& kv_heads;
  int64_t layers;
  bool rotates;  // cross-attention has no common positions to rotate by
};

int64_t at_layer(const std::vector<int64_t>& list, int64_t layer) {
  return list.size() == 1 ? list[0] : list[static_cast<size_t>(layer)];
}

/// Reports a list that is neither one number nor one per layer; true when it can be read by layer.
bool check_list(const std::string& key, const std::vector<int64_t>& list,
                const Attention& attention, Conflicts& out) {
  const auto size = static_cast<int64_t>(list.size());
  if (size == 1 || size == attention.layers) return true;
  out.push_back({{key, attention.layers_key},
                 text_of("found ", size, " numbers with ", attention.layers_key, " = ",
                         attention.layers, "; needed 1 or ", attention.layers)});
  return false;
}

/// What a head count must fit: the model width, rotation and the identity projection.
void check_width(const ModelConfig& model, const Attention& attention, int64_t heads,
                 Conflicts& out) {
  const std::vector<std::string> keys = {"model.head_width", attention.heads_key, "model.width"};
  const std::string with = text_of(" with ", attention.heads_key, " = ", heads);
  if (model.head_width == 0 && model.width % heads != 0) {
    out.push_back({{"model.width", attention.heads_key, "model.head_width"},
                   text_of("found ", model.width, with, "; needed a multiple of ", heads,
                           ", or a head_width of its own")});
    return;
  }
  const int64_t head_width = model.head_width != 0 ? model.head_width : model.width / heads;
  if (attention.rotates && model.positions == Positions::kRotary && head_width % 2 != 0) {
    std::vector<std::string> rotary_keys = keys;
    rotary_keys.push_back("model.positions");
    out.push_back({rotary_keys, text_of("found a head width of ", head_width, with,
                                        "; needed an even one for rotary positions")});
  }
  if (!model.output_projection && heads * head_width != model.width) {
    std::vector<std::string> projection_keys = keys;
    projection_keys.push_back("model.output_projection");
    out.push_back({projection_keys, text_of("found ", head_width, with,
                                            "; needed heads * head_width = width = ", model.width,
                                            " because output_projection = false")});
  }
}

void check_attention(const ModelConfig& model, const Attention& attention, Conflicts& out) {
  if (!check_list(attention.heads_key, attention.heads, attention, out)) return;
  const bool own_kv = !attention.kv_heads.empty() &&
                      check_list(attention.kv_key, attention.kv_heads, attention, out);
  const bool one_for_all = attention.heads.size() == 1 && attention.kv_heads.size() <= 1;
  for (int64_t layer = 0; layer < (one_for_all ? 1 : attention.layers); ++layer) {
    const int64_t heads = at_layer(attention.heads, layer);
    if (attention.heads.size() > 1 || layer == 0) check_width(model, attention, heads, out);
    if (!own_kv) continue;
    const int64_t kv_heads = at_layer(attention.kv_heads, layer);
    if (heads % kv_heads != 0) {
      const std::string where = one_for_all ? "" : text_of(" in layer ", layer + 1);
      out.push_back({{attention.kv_key, attention.heads_key},
                     text_of("found ", kv_heads, where, " with ", attention.heads_key, " = ", heads,
                             "; needed a divisor of ", heads)});
    }
  }
}

void check_model(const Config& config, Conflicts& out) {
  const ModelConfig& model = config.model;
  if (model.embeddings == Embeddings::kShared && !config.subword.joint) {
    out.push_back(
        {{"model.embeddings", "subword.joint"},
         "found \"shared\" with subword.joint = false; needed \"separate\", or joint = true"});
  }
  if (model.positions == Positions::kSinusoidal && model.width % 2 != 0) {
    out.push_back(
        {{"model.width", "model.positions"},
         text_of("found ", model.width, "; needed an even one for sinusoidal positions")});
  }
  check_attention(model,
                  {"model.encoder_heads", "model.encoder_kv_heads", "model.encoder_layers",
                   model.encoder_heads, model.encoder_kv_heads, model.encoder_layers, true},
                  out);
  check_attention(model,
                  {"model.decoder_heads", "model.decoder_kv_heads", "model.decoder_layers",
                   model.decoder_heads, model.decoder_kv_heads, model.decoder_layers, true},
                  out);
  check_attention(model,
                  {"model.cross_heads", "model.cross_kv_heads", "model.decoder_layers",
                   model.cross_heads, model.cross_kv_heads, model.decoder_layers, false},
                  out);
}

void check_schedule(const ScheduleConfig& schedule, Conflicts& out) {
  const bool ends =
      schedule.kind == ScheduleKind::kCosine || schedule.kind == ScheduleKind::kLinear;
  if (ends && schedule.horizon <= schedule.warmup) {
    out.push_back({{"schedule.horizon", "schedule.warmup", "schedule.kind"},
                   text_of("found ", schedule.horizon, " with schedule.warmup = ", schedule.warmup,
                           "; needed more than the warm-up")});
  }
  if (schedule.kind == ScheduleKind::kInverseSqrt && schedule.warmup == 0) {
    out.push_back({{"schedule.warmup", "schedule.kind"},
                   "found 0 with schedule.kind = \"inverse_sqrt\"; needed at least 1"});
  }
}

void check_run(const Config& config, Conflicts& out) {
  const TrainConfig& train = config.train;
  const ValidationConfig& validation = config.validation;
  if (train.max_steps == 0 && train.max_epochs == 0 && train.max_minutes == 0 &&
      validation.patience == 0) {
    out.push_back(
        {{"train.max_steps", "train.max_epochs", "train.max_minutes", "validation.patience"},
         "found no stop; needed train.max_steps, train.max_epochs, train.max_minutes or "
         "validation.patience above 0"});
  }
  if (validation.patience > 0 && validation.every == 0) {
    out.push_back({{"validation.patience", "validation.every"},
                   text_of("found ", validation.patience,
                           " with validation.every = 0; needed validations to count")});
  }
  if (validation.every > 0 && validation.best_by == BestBy::kBleu && !validation.bleu) {
    out.push_back({{"validation.best_by", "validation.bleu"},
                   "found \"bleu\" with validation.bleu = false; needed \"loss\", or bleu = true"});
  }
  if (train.precision == Precision::kBFloat16) {
    const int64_t width = width_unfit_for_bfloat16(config.model);
    if (width != 0) {
      out.push_back({{"train.precision", "model.width", "model.feed_forward", "model.head_width"},
                     text_of("found \"bf16\" and a layer of width ", width,
                             "; needed widths of the model, of the feed-forward block and of all "
                             "heads together that are multiples of ",
                             kBFloat16WidthMultiple)});
    }
  }
  if (train.average_last > config.checkpoint.keep) {
    out.push_back({{"train.average_last", "checkpoint.keep"},
                   text_of("found ", train.average_last, " with checkpoint.keep = ",
                           config.checkpoint.keep, "; needed at most as many as are kept")});
  }
  if (config.translate.max_length_factor == 0 && config.translate.max_length_extra == 0) {
    out.push_back({{"translate.max_length_factor", "translate.max_length_extra"},
                   "found 0 with max_length_extra = 0; needed one of them above 0"});
  }
}

}  // namespace

std::vector<Conflict> conflicts(const Config& config) {
  Conflicts found;
  check_data(config, found);
  check_subword(config.subword, found);
  check_model(config, found);
  check_schedule(config.schedule, found);
  check_run(config, found);
  return found;
}

}  // namespace headwise::config
