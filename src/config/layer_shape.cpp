#include "src/config/layer_shape.h"

#include <algorithm>

namespace headwise::config {
namespace {

int64_t of_layer(const std::vector<int64_t>& values, int64_t layer) {
  return values.size() == 1 ? values.front() : values.at(static_cast<size_t>(layer));
}

AttentionShape shape(const ModelConfig& config, const std::vector<int64_t>& heads,
                     const std::vector<int64_t>& kv_heads, int64_t layer) {
  AttentionShape result;
  result.heads = of_layer(heads, layer);
  result.kv_heads = kv_heads.empty() ? result.heads : of_layer(kv_heads, layer);
  result.head_width = config.head_width > 0 ? config.head_width : config.width / result.heads;
  return result;
}

}  // namespace

AttentionShape encoder_shape(const ModelConfig& config, int64_t layer) {
  return shape(config, config.encoder_heads, config.encoder_kv_heads, layer);
}

AttentionShape decoder_shape(const ModelConfig& config, int64_t layer) {
  return shape(config, config.decoder_heads, config.decoder_kv_heads, layer);
}

AttentionShape cross_shape(const ModelConfig& config, int64_t layer) {
  return shape(config, config.cross_heads, config.cross_kv_heads, layer);
}

int64_t width_unfit_for_bfloat16(const ModelConfig& config) {
  std::vector<int64_t> widths = {config.width, config.feed_forward};
  const auto add = [&](const AttentionShape& shape) {
    widths.push_back(shape.heads * shape.head_width);
    widths.push_back(shape.kv_heads * shape.head_width);
  };
  for (int64_t i = 0; i < config.encoder_layers; ++i) add(encoder_shape(config, i));
  for (int64_t i = 0; i < config.decoder_layers; ++i) {
    add(decoder_shape(config, i));
    add(cross_shape(config, i));
  }
  const auto unfit = std::find_if(widths.begin(), widths.end(), [](int64_t width) {
    return width % kBFloat16WidthMultiple != 0;
  });
  return unfit == widths.end() ? 0 : *unfit;
}

}  // namespace headwise::config
