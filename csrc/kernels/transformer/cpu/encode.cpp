// The encoder: a block of whole sentences goes through all layers, since sentences never meet.
#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "csrc/kernels/transformer/cpu/encode.cpp"
#include <hwy/foreach_target.h>
// Highway's headers must follow foreach_target.h.
#include "csrc/kernels/cpu/instruction_set.h"
#include "csrc/kernels/transformer/cpu/encode_layout.h"
#include "csrc/kernels/transformer/cpu/layers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename C>
class Encode {
 public:
  Encode(const EncodeParams<C>& params, int64_t item, const EncodeScratch<C>& scratch)
      : in_(params),
        scratch_(scratch),
        begin_(params.blocks[item]),
        end_(params.blocks[item + 1]),
        first_(params.source.starts[begin_]),
        block_(params.stack, params.source.starts[end_] - first_, scratch.rows) {}

  void run() const {
    for_each_token([&](int64_t row, int64_t position) {
      block_.embed(row, in_.tokens[first_ + row], position, in_.tables);
    });
    for (int64_t i = 0; i < in_.stack.layer_count; ++i) {
      const PackedLayer<C>& layer = in_.stack.layers[i];
      block_.add_attention(layer.self, [&](const Rows<C>& in) { attend(i, layer.self, in); });
      block_.add_feed_forward(layer);
    }
    const Rows<C> states = block_.finished();
    for (int64_t i = 0; i < in_.decoder_layers; ++i) {
      make_source_keys(in_.decoder[i].cross, states, in_.results[i]);
    }
  }

 private:
  template <typename Act>
  void for_each_token(const Act& act) const {
    for (int64_t b = begin_; b < end_; ++b) {
      const int64_t start = in_.source.starts[b], end = in_.source.starts[b + 1];
      for (int64_t n = start; n < end; ++n) act(n - first_, n - start);
    }
  }

  void attend(int64_t layer, const PackedAttention<C>& attention, const Rows<C>& in) const {
    const int64_t width = key_width(attention);
    const Rows<C> keys{scratch_.keys, width}, values{scratch_.values, width};
    multiply(block_.count(), in, attention.key, keys, Store::kWrite);
    multiply(block_.count(), in, attention.value, values, Store::kWrite);
    if (attention.rotary) {
      const RotaryTable<C>& table = in_.tables.rotary[layer];
      for_each_token([&](int64_t row, int64_t position) {
        rotate_row(block_.queries()[row], attention.heads, attention.head_width, table, position);
        rotate_row(keys[row], attention.kv_heads, attention.head_width, table, position);
      });
    }
    for (int64_t b = begin_; b < end_; ++b) {
      const int64_t row = in_.source.starts[b] - first_;
      const int64_t count = in_.source.starts[b + 1] - in_.source.starts[b];
      transpose(attention, {keys[row], width}, count, scratch_.transposed);
      const auto from = [&](const Rows<C>& rows) { return Rows<C>{rows[row], rows.stride}; };
      attend_shared(attention, count, from(block_.queries()),
                    SharedKeys<C>{scratch_.transposed, values[row], width, count},
                    from(block_.heads()), scratch_.scores);
    }
  }

  void make_source_keys(const PackedAttention<C>& attention, const Rows<C>& states,
                        const SourceKeys<C>& to) const {
    const int64_t width = key_width(attention);
    const Rows<C> keys{scratch_.keys, width}, values{to.values + first_ * width, width};
    multiply(block_.count(), states, attention.key, keys, Store::kWrite);
    multiply(block_.count(), states, attention.value, values, Store::kWrite);
    for (int64_t b = begin_; b < end_; ++b) {
      transpose(attention, {keys[in_.source.starts[b] - first_], width},
                in_.source.starts[b + 1] - in_.source.starts[b],
                to.keys + in_.source.padded_starts[b] * width);
    }
  }

  // (T, G D) to (G, D, T), T padded by zeros.
  static void transpose(const PackedAttention<C>& attention, const Rows<C>& keys, int64_t count,
                        C* to) {
    const int64_t width = key_width(attention), room = padded<C>(count);
    for (int64_t i = 0; i < width; ++i) {
      C* row = to + i * room;
      for (int64_t j = 0; j < count; ++j) row[j] = keys[j][i];
      std::fill(row + count, row + room, C{0});
    }
  }

  const EncodeParams<C>& in_;
  const EncodeScratch<C>& scratch_;
  const int64_t begin_, end_;  // sentences
  const int64_t first_;        // token
  const BlockOfRows<C> block_;
};

template <typename C>
void encode(const void* params, int64_t item, void* memory) {
  const auto& in = *static_cast<const EncodeParams<C>*>(params);
  Encode<C>(in, item, EncodeScratch<C>(in, memory)).run();
}

void run_encode(ElementType type, const void* params, int64_t item, void* memory) {
  (type == ElementType::kDouble ? encode<double> : encode<float>)(params, item, memory);
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise::kernels {
namespace cpu {
HWY_EXPORT(run_encode);
}  // namespace cpu

template <typename C>
Plan plan(const EncodeParams<C>& params) {
  Plan plan{"cpu/transformer_encode", cpu::instruction_set(), {}};
  const cpu::EncodeScratch<C> scratch(params, nullptr);
  plan.phases.push_back({params.block_count, scratch.arena.bytes(),
                         params.most_tokens * cpu::row_cost(params.stack)});
  return plan;
}

template <typename C>
void run(const EncodeParams<C>& params, size_t /*phase*/, const ItemRange& items,
         const Memory& memory) {
  for (int64_t item = items.begin; item < items.end; ++item) {
    HWY_DYNAMIC_DISPATCH(cpu::run_encode)(kElementType<C>, &params, item, memory.scratch);
  }
}

template Plan plan(const EncodeParams<float>&);
template Plan plan(const EncodeParams<double>&);
template void run(const EncodeParams<float>&, size_t, const ItemRange&, const Memory&);
template void run(const EncodeParams<double>&, size_t, const ItemRange&, const Memory&);

}  // namespace headwise::kernels
#endif  // HWY_ONCE
