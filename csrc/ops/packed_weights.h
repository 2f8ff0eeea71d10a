// Tensors of weights turned into what the kernels read.
#pragma once

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <deque>
#include <vector>

#include "csrc/kernels/transformer/pack.h"
#include "csrc/kernels/transformer/params.h"
#include "csrc/ops/packed_transformer.h"

namespace headwise::ops {

/// Owns the numbers of packed layers.
template <typename C>
class WeightStore {
 public:
  static constexpr at::ScalarType kType = std::is_same_v<C, double> ? at::kDouble : at::kFloat;

  void fill(const TransformerWeights& weights, const StackWeights& from,
            std::vector<kernels::PackedLayer<C>>& layers, kernels::PackedStack<C>& stack) {
    const at::Tensor embedding = checked(from.embedding, "embedding", {-1, -1});
    stack.width = embedding.size(1);
    stack.pre_norm = weights.pre_norm;
    stack.activation =
        weights.gelu ? kernels::ActivationKind::kGelu : kernels::ActivationKind::kRelu;
    stack.embedding = embedding.template const_data_ptr<C>();
    stack.embedding_scale = weights.embedding_scale;
    stack.feed_forward = from.layers.empty() ? 1 : from.layers[0].in.weight.size(0);
    const int64_t width = stack.width, inner = stack.feed_forward;
    for (const LayerWeights& layer : from.layers) {
      kernels::PackedLayer<C> packed;
      packed.self = attention(layer.self, width);
      if (layer.cross.heads > 0) packed.cross = attention(layer.cross, width);
      packed.in = matrix(layer.in, {1, inner}, {1, width});
      packed.out = matrix(layer.out, {1, width}, {1, inner});
      packed.norm = norm(layer.norm, width);
      layers.push_back(packed);
    }
    stack.layer_count = int64_t(layers.size());
    stack.layers = layers.data();
    stack.final_norm = norm(from.final_norm, width);
  }

  kernels::PackedMatrix<C> matrix(const LinearWeights& from, const kernels::HeadSide& out,
                                  const kernels::HeadSide& in, double factor = 1) {
    const int64_t outs = out.heads * out.width, ins = in.heads * in.width;
    const at::Tensor weight = checked(from.weight, "weight", {outs, ins});
    kernels::PlainWeight<C> plain;
    plain.weight = weight.template const_data_ptr<C>();
    if (from.bias.defined())
      plain.bias = checked(from.bias, "bias", {outs}).template const_data_ptr<C>();
    plain.out = out;
    plain.in = in;
    plain.factor = static_cast<C>(factor);
    const kernels::MatrixPacker<C> packer(plain);
    return packer.pack(room(packer.size()));
  }

 private:
  kernels::PackedAttention<C> attention(const AttentionWeights& from, int64_t width) {
    kernels::PackedAttention<C> to;
    to.heads = from.heads;
    to.kv_heads = from.kv_heads;
    to.head_width = from.head_width;
    to.rotary = from.rotary;
    const kernels::HeadSide queries{from.heads, from.head_width};
    const kernels::HeadSide keys{from.kv_heads, from.head_width};
    to.query = matrix(from.query, queries, {1, width}, 1 / std::sqrt(double(from.head_width)));
    to.key = matrix(from.key, keys, {1, width});
    to.value = matrix(from.value, keys, {1, width});
    const LinearWeights identity{at::eye(width, at::TensorOptions(kType)), {}};
    to.output = matrix(from.output.weight.defined() ? from.output : identity, {1, width}, queries);
    to.norm = norm(from.norm, width);
    return to;
  }

  kernels::LayerNorm<C> norm(const NormWeights& from, int64_t width) {
    if (!from.weight.defined()) return {};
    const auto padded = [&](const at::Tensor& tensor, const char* name) {
      const at::Tensor numbers = checked(tensor, name, {width});
      C* to = room(kernels::cpu::padded<C>(width));
      std::copy_n(numbers.template const_data_ptr<C>(), width, to);
      return to;
    };
    return {padded(from.weight, "norm weight"), padded(from.bias, "norm bias"), from.epsilon};
  }

  /// Contiguous; kept alive.
  const at::Tensor& checked(const at::Tensor& tensor, const char* name, at::IntArrayRef sizes) {
    bool fits = tensor.defined() && tensor.dim() == int64_t(sizes.size());
    for (size_t i = 0; fits && i < sizes.size(); ++i) {
      fits = sizes[i] < 0 || tensor.size(int64_t(i)) == sizes[i];
    }
    TORCH_CHECK_VALUE(fits, "pack_transformer: ", name, " must have sizes ", sizes, "; got ",
                      tensor.defined() ? tensor.sizes() : at::IntArrayRef());
    TORCH_CHECK_TYPE(tensor.scalar_type() == kType && tensor.device().is_cpu(),
                     "pack_transformer: ", name, " must be ", kType, " on the CPU, as the output ",
                     "layer is; got ", tensor.scalar_type(), " on ", tensor.device());
    return tensors_.emplace_back(tensor.detach().contiguous());
  }

  /// Zeros, aligned for every vector.
  C* room(int64_t count) {
    return tensors_.emplace_back(at::zeros({count}, at::TensorOptions(kType)))
        .template mutable_data_ptr<C>();
  }

  std::deque<at::Tensor> tensors_;
};

}  // namespace headwise::ops
