// A block of rows on its way through layers: the memory it takes and the parts that encoder and
// decoder share.
#if defined(HEADWISE_TRANSFORMER_LAYERS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef HEADWISE_TRANSFORMER_LAYERS_INL_H
#undef HEADWISE_TRANSFORMER_LAYERS_INL_H
#else
#define HEADWISE_TRANSFORMER_LAYERS_INL_H
#endif

#include "csrc/kernels/cpu/arena.h"
#include "csrc/kernels/transformer/cpu/attend-inl.h"
#include "csrc/kernels/transformer/cpu/layout.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

template <typename C>
class BlockOfRows {
 public:
  BlockOfRows(const PackedStack<C>& stack, int64_t rows, const BlockScratch<C>& scratch)
      : stack_(stack),
        rows_(rows),
        x_{scratch.x, scratch.stride},
        y_{scratch.y, scratch.stride},
        queries_{scratch.queries, scratch.heads_stride},
        heads_{scratch.heads, scratch.heads_stride},
        inner_{scratch.inner, scratch.inner_stride} {
    put_ones(x_, padded<C>(stack.width));
    put_ones(y_, padded<C>(stack.width));
    put_ones(inner_, padded<C>(stack.feed_forward));
  }

  int64_t count() const { return rows_; }
  const Rows<C>& queries() const { return queries_; }
  const Rows<C>& heads() const { return heads_; }

  void embed(int64_t r, int64_t token, int64_t position, const PositionTables<C>& tables) const {
    const C* at =
        tables.sinusoidal == nullptr ? nullptr : tables.sinusoidal + position * stack_.width;
    embed_row(stack_, token, at, x_[r]);
  }

  // Adds attention to the rows: `attend(in)` is given the rows that queries, keys and values are
  // made of, finds the queries ready and leaves the heads' outputs.
  template <typename Attend>
  void add_attention(const PackedAttention<C>& attention, const Attend& attend) const {
    add_branch(attention.norm, [&](const Rows<C>& in) {
      multiply(rows_, in, attention.query, queries_, Store::kWrite);
      attend(in);
      put_ones(heads_, attention.heads * padded<C>(attention.head_width));
      multiply(rows_, heads_, attention.output, x_, Store::kAdd);
    });
  }

  void add_feed_forward(const PackedLayer<C>& layer) const {
    add_branch(layer.norm, [&](const Rows<C>& in) {
      multiply(rows_, in, layer.in, inner_, Store::kWrite);
      for (int64_t r = 0; r < rows_; ++r) {
        activate_row(inner_[r], padded<C>(stack_.feed_forward), stack_.activation);
      }
      multiply(rows_, inner_, layer.out, x_, Store::kAdd);
    });
  }

  // The rows behind the last layer, each with its 1.
  Rows<C> finished() const {
    if (stack_.final_norm.weight == nullptr) return x_;
    normalise(stack_.final_norm, y_);
    return y_;
  }

 private:
  template <typename Branch>
  void add_branch(const LayerNorm<C>& norm, const Branch& branch) const {
    if (stack_.pre_norm) {
      normalise(norm, y_);
      branch(y_);
    } else {
      branch(x_);
      normalise(norm, x_);
    }
  }

  void normalise(const LayerNorm<C>& norm, const Rows<C>& to) const {
    for (int64_t r = 0; r < rows_; ++r) normalise_row(x_[r], stack_.width, norm, to[r]);
  }

  void put_ones(const Rows<C>& rows, int64_t column) const {
    for (int64_t r = 0; r < rows_; ++r) rows[r][column] = 1;
  }

  const PackedStack<C>& stack_;
  const int64_t rows_;
  const Rows<C> x_, y_, queries_, heads_, inner_;
};

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#endif  // HEADWISE_TRANSFORMER_LAYERS_INL_H
