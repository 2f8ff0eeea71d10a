// One decoding step: blocks of rows go through all layers; then blocks of rows meet the vocabulary,
// a chunk at a time. Few rows are one item: a thread woken for a share of them comes too late.
#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "csrc/kernels/transformer/cpu/decode_step.cpp"
#include <hwy/foreach_target.h>
// Highway's headers must follow foreach_target.h.
#include "csrc/kernels/cpu/instruction_set.h"
#include "csrc/kernels/transformer/cpu/choose-inl.h"
#include "csrc/kernels/transformer/cpu/decode_layout.h"
#include "csrc/kernels/transformer/cpu/layers-inl.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename C>
class StepLayers {
 public:
  StepLayers(const DecodeStepParams<C>& params, int64_t item, const LayersScratch<C>& scratch)
      : in_(params),
        scratch_(scratch),
        first_(item * DecodeLayout<C>::kRows),
        block_(params.stack, std::min(DecodeLayout<C>::kRows, params.rows - first_), scratch.rows) {
  }

  void run(const Rows<C>& hidden) const {
    for (int64_t r = 0; r < block_.count(); ++r) {
      block_.embed(r, in_.tokens[first_ + r], in_.position, in_.tables);
    }
    for (int64_t i = 0; i < in_.stack.layer_count; ++i) {
      const PackedLayer<C>& layer = in_.stack.layers[i];
      block_.add_attention(layer.self, [&](const Rows<C>& in) { attend(i, layer.self, in); });
      block_.add_attention(layer.cross, [&](const Rows<C>&) { attend_source(i, layer.cross); });
      block_.add_feed_forward(layer);
    }
    const Rows<C> states = block_.finished();
    for (int64_t r = 0; r < block_.count(); ++r) {
      std::copy_n(states[r], states.stride, hidden[first_ + r]);
    }
  }

 private:
  void attend(int64_t layer, const PackedAttention<C>& attention, const Rows<C>& in) const {
    const int64_t width = key_width(attention), stride = 2 * width;
    const Rows<C> keys{in_.cache[layer] + (in_.position * in_.most_rows + first_) * stride, stride};
    const Rows<C> values{keys.data + width, stride};
    multiply(block_.count(), in, attention.key, keys, Store::kWrite);
    multiply(block_.count(), in, attention.value, values, Store::kWrite);
    const int64_t count = in_.position + 1;
    for (int64_t r = 0; r < block_.count(); ++r) {
      if (attention.rotary) {
        const RotaryTable<C>& table = in_.tables.rotary[layer];
        rotate_row(block_.queries()[r], attention.heads, attention.head_width, table, in_.position);
        rotate_row(keys[r], attention.kv_heads, attention.head_width, table, in_.position);
      }
      const int32_t* places = in_.places + (first_ + r) * in_.capacity;
      for (int64_t j = 0; j < count; ++j) {
        scratch_.past[j] = in_.cache[layer] + (j * in_.most_rows + places[j]) * stride;
      }
      for (int64_t j = count; j % 4 != 0; ++j) scratch_.past[j] = scratch_.past[count - 1];
      attend_past(attention, block_.queries()[r], Past<C>{scratch_.past, count}, block_.heads()[r],
                  scratch_.scores);
    }
  }

  void attend_source(int64_t layer, const PackedAttention<C>& attention) const {
    const int64_t width = key_width(attention);
    const SourceKeys<C>& source = in_.cross[layer];
    const int32_t* sentences = in_.sentences + first_;
    for (int64_t r = 0, end; r < block_.count(); r = end) {
      const int32_t b = sentences[r];
      for (end = r + 1; end < block_.count() && sentences[end] == b;) ++end;
      const int64_t start = in_.source.starts[b];
      const SharedKeys<C> seen{source.keys + in_.source.padded_starts[b] * width,
                               source.values + start * width, width,
                               in_.source.starts[b + 1] - start};
      const auto from = [&](const Rows<C>& rows) { return Rows<C>{rows[r], rows.stride}; };
      attend_shared(attention, end - r, from(block_.queries()), seen, from(block_.heads()),
                    scratch_.scores);
    }
  }

  const DecodeStepParams<C>& in_;
  const LayersScratch<C>& scratch_;
  const int64_t first_;
  const BlockOfRows<C> block_;
};

template <typename C>
class StepOutput {
 public:
  using Layout = DecodeLayout<C>;

  StepOutput(const DecodeStepParams<C>& params, int64_t item, const OutputScratch<C>& scratch)
      : in_(params),
        first_(item * Layout::kOutputRows),
        rows_(std::min(Layout::kOutputRows, params.rows - first_)),
        scores_{scratch.scores, Layout::kChunk},
        choices_(scratch.choices) {}

  void run(const Rows<C>& hidden) const {
    if (in_.probabilities != nullptr) return fill(hidden);
    for (int64_t r = 0; r < rows_; ++r) {
      choices_[r] = {in_.choices + (first_ + r) * in_.wanted};
    }
    for (int64_t column = 0; column < in_.output.width; column += Layout::kChunk) {
      const int64_t width = score(hidden, column, scores_);
      for (int64_t r = 0; r < rows_; ++r) look(r, column, width);
    }
    for (int64_t r = 0; r < rows_; ++r) {
      const RowChoices<C>& row = choices_[r];
      const C log = std::log(row.sum);
      for (int64_t i = 0; i < row.count; ++i) {
        C& score = row.choices[i].log_probability;
        score = score - row.largest - log;
      }
      in_.choice_count[first_ + r] = row.count;
    }
  }

 private:
  void fill(const Rows<C>& hidden) const {
    const int64_t all = in_.output.width;
    const Rows<C> rows{in_.probabilities + first_ * all, all};
    for (int64_t column = 0; column < all; column += Layout::kChunk) {
      score(hidden, column, {rows.data + column, all});
    }
    for (int64_t r = 0; r < rows_; ++r) {
      RowChoices<C>& row = choices_[r] = {};
      add_exponentials(rows[r], all, row);
      make_probabilities(rows[r], all, row);
    }
  }

  // A chunk of scores of all rows; what is no piece scores -inf. How wide the chunk is.
  int64_t score(const Rows<C>& hidden, int64_t column, const Rows<C>& to) const {
    const PackedMatrix<C>& m = in_.output;
    const int64_t width = std::min(Layout::kChunk, m.width - column);
    multiply(rows_, {hidden[first_], hidden.stride},
             PackedMatrix<C>{m.panels + column * m.depth, m.depth, width}, to, Store::kWrite);
    const int64_t pieces = std::min(width, in_.pieces - column);
    for (int64_t r = 0; r < rows_; ++r) std::fill(to[r] + pieces, to[r] + width, kNever);
    return width;
  }

  void look(int64_t r, int64_t column, int64_t width) const {
    C* scores = scores_[r];
    add_exponentials(scores, width, choices_[r]);
    const auto hide = [&](int64_t token) {
      if (token >= column && token < column + width) scores[token - column] = kNever;
    };
    for (int64_t i = 0; i < in_.forbidden_count; ++i) hide(in_.forbidden[i]);
    if (!in_.may_end[first_ + r]) hide(in_.eos);
    choose(scores, column, width, in_.wanted, choices_[r]);
  }

  static constexpr C kNever = -std::numeric_limits<C>::infinity();
  const DecodeStepParams<C>& in_;
  const int64_t first_, rows_;
  const Rows<C> scores_;
  RowChoices<C>* const choices_;
};

template <typename C>
void step(const void* params, int64_t phase, int64_t item, const Memory& memory) {
  const auto& in = *static_cast<const DecodeStepParams<C>*>(params);
  const Rows<C> hidden{static_cast<C*>(memory.workspace), DecodeLayout<C>(in).hidden_stride};
  if (phase == 0) {
    const LayersScratch<C> scratch(in, memory.scratch);
    StepLayers<C>(in, item, scratch).run(hidden);
  } else {
    const OutputScratch<C> scratch(in, memory.scratch);
    StepOutput<C>(in, item, scratch).run(hidden);
  }
}

void run_step(ElementType type, const void* params, int64_t phase, int64_t item,
              const Memory& memory) {
  (type == ElementType::kDouble ? step<double> : step<float>)(params, phase, item, memory);
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise::kernels {
namespace cpu {
HWY_EXPORT(run_step);
}  // namespace cpu

template <typename C>
Plan plan(const DecodeStepParams<C>& params) {
  using Layout = cpu::DecodeLayout<C>;
  Plan plan{"cpu/transformer_step", cpu::instruction_set(), {}};
  const Layout layout(params);
  plan.workspace_bytes = params.rows * layout.hidden_stride * sizeof(C);
  plan.phases.push_back({layout.blocks, cpu::LayersScratch<C>(params, nullptr).arena.bytes(),
                         std::min(Layout::kRows, params.rows) * cpu::row_cost(params.stack)});
  const int64_t rows = std::min(Layout::kOutputRows, params.rows);
  plan.phases.push_back({layout.output_blocks, cpu::OutputScratch<C>(params, nullptr).bytes,
                         rows * params.output.depth * params.output.width});
  return plan;
}

template <typename C>
void run(const DecodeStepParams<C>& params, size_t phase, const ItemRange& items,
         const Memory& memory) {
  for (int64_t item = items.begin; item < items.end; ++item) {
    HWY_DYNAMIC_DISPATCH(cpu::run_step)
    (kElementType<C>, &params, static_cast<int64_t>(phase), item, memory);
  }
}

template Plan plan(const DecodeStepParams<float>&);
template Plan plan(const DecodeStepParams<double>&);
template void run(const DecodeStepParams<float>&, size_t, const ItemRange&, const Memory&);
template void run(const DecodeStepParams<double>&, size_t, const ItemRange&, const Memory&);

}  // namespace headwise::kernels
#endif  // HWY_ONCE
