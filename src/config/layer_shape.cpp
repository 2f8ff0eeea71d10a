#include "src/config/layer_shape.h"

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

}  // namespace headwise::config
