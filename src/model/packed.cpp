#include "src/model/packed.h"

#include <ATen/ATen.h>

#include <cmath>
#include <string>

#include "csrc/nn/rotary.h"
#include "src/config/layer_shape.h"
#include "src/model/positions.h"

namespace headwise::model {
namespace {

/// Finds the weights of a model by the names that checkpoints give them.
class WeightsByName {
 public:
  explicit WeightsByName(const Transformer& model)
      : config_(model->config()), parameters_(model->named_parameters()) {}

  StackWeights encoder(const std::string& embedding) const {
    StackWeights stack{{}, norm("encoder_norm"), weight(embedding)};
    for (int64_t i = 0; i < config_.encoder_layers; ++i) {
      stack.layers.push_back(
          layer("encoder_" + std::to_string(i), config::encoder_shape(config_, i)));
    }
    return stack;
  }

  StackWeights decoder(const std::string& embedding) const {
    StackWeights stack{{}, norm("decoder_norm"), weight(embedding)};
    for (int64_t i = 0; i < config_.decoder_layers; ++i) {
      const std::string name = "decoder_" + std::to_string(i);
      stack.layers.push_back(layer(name, config::decoder_shape(config_, i)));
      // Rotary positions are those of one sequence.
      stack.layers.back().cross =
          attention(name + ".cross_attention", config::cross_shape(config_, i), false);
    }
    return stack;
  }

 private:
  LayerWeights layer(const std::string& name, const config::AttentionShape& shape) const {
    const bool rotary = config_.positions == config::Positions::kRotary;
    return {attention(name + ".self_attention", shape, rotary),
            {},
            linear(name + ".feed_forward.in"),
            linear(name + ".feed_forward.out"),
            norm(name + ".feed_forward_norm")};
  }

  AttentionWeights attention(const std::string& name, const config::AttentionShape& shape,
                             bool rotary) const {
    return {shape.heads,
            shape.kv_heads,
            shape.head_width,
            rotary,
            linear(name + ".q_proj"),
            linear(name + ".k_proj"),
            linear(name + ".v_proj"),
            linear(name + ".out_proj"),
            norm(name + "_norm")};
  }

  LinearWeights linear(const std::string& name) const {
    return {find(name + ".weight"), find(name + ".bias")};
  }
  NormWeights norm(const std::string& name) const {
    const double epsilon = torch::nn::LayerNormOptions({config_.width}).eps();
    return {find(name + ".weight"), find(name + ".bias"), epsilon};
  }
  at::Tensor weight(const std::string& name) const { return find(name + ".weight"); }

  /// Undefined where the model has none.
  at::Tensor find(const std::string& name) const {
    const at::Tensor* found = parameters_.find(name);
    return found == nullptr ? at::Tensor() : found->detach();
  }

  const config::ModelConfig& config_;
  const torch::OrderedDict<std::string, at::Tensor> parameters_;
};

}  // namespace

std::unique_ptr<PackedTransformer> pack(const Transformer& model) {
  const config::ModelConfig& config = model->config();
  const WeightsByName named(model);
  const bool shared = config.embeddings == config::Embeddings::kShared;
  TransformerWeights weights;
  weights.pre_norm = config.norm == config::NormPlacement::kPre;
  weights.gelu = config.activation == config::Activation::kGelu;
  weights.embedding_scale = std::sqrt(double(config.width));
  weights.encoder = named.encoder(shared ? "embedding" : "source_embedding");
  weights.decoder = named.decoder(shared ? "embedding" : "target_embedding");
  weights.output = model->output_weight().detach();
  const at::TensorOptions options(weights.output.scalar_type());
  if (config.positions == config::Positions::kSinusoidal) {
    weights.positions = [width = config.width, options](int64_t length) {
      return sinusoidal_table(length, width, options);
    };
  } else {
    weights.rotation = [options](int64_t length, int64_t head_width) {
      const nn::RotaryTable table = nn::rotary_table(at::arange(length, at::kLong), head_width,
                                                     c10::typeMetaToScalarType(options.dtype()));
      return std::pair(table.cosine, table.sine);
    };
  }
  return pack_transformer(weights);
}

}  // namespace headwise::model
