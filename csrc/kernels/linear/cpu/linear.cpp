// Linear layers that share an input, and their gradients, as products of pairs of bfloat16:
//   y = x W^T + b,   dx = sum of dy W,   dW = dy^T x,   db = sums down the columns of dy
// Numbers are rounded where they are packed; sums, results and the sums of db stay float.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "csrc/kernels/linear/cpu/linear.cpp"
#include <hwy/foreach_target.h>
// Highway's headers must follow foreach_target.h.
#include "csrc/kernels/cpu/instruction_set.h"
#include "csrc/kernels/cpu/pack-inl.h"
#include "csrc/kernels/linear/cpu/layout.h"

HWY_BEFORE_NAMESPACE();
namespace headwise::kernels::cpu {
namespace HWY_NAMESPACE {

// rows x 32 numbers of C, in even shares.
template <typename P, bool kAsks = false>
void product_of_rows(int64_t rows, LeftFactor<P> a, const P* panel, int64_t depth, float* c,
                     int64_t c_stride, Store store, Ahead ahead = {}) {
  const int64_t columns = 2 * lanes<float>(), share = even_share(rows, most_rows(2));
  for (int64_t column = 0; column < kLinearPanel; column += columns) {
    for (int64_t r = 0; r < rows; r += share) {
      product_panel<kAsks, P>(
          std::min(share, rows - r), columns, {a.data + r * a.row_stride, a.row_stride, a.step},
          {panel + column, kLinearPanel}, depth, c + r * c_stride + column, c_stride, store, ahead);
      ahead.at += depth * ahead.step;
    }
  }
}
// How many steps the products of `panels` panels take.
inline int64_t steps_of_rows(int64_t rows, int64_t panels, int64_t depth) {
  const int64_t blocks = divide_up(rows, even_share(rows, most_rows(2)));
  return panels * blocks * (kLinearPanel / (2 * lanes<float>())) * depth;
}

template <typename P>
class LinearForward {
 public:
  LinearForward(const LinearParams& params, const Memory& memory)
      : in_(params), work_(params, memory.workspace), scratch_(params, memory.scratch) {}

  void pack_weights(int64_t panel) const {
    const auto [part, column] = find_panel(in_, panel);
    const float* from = in_.parts[part].weight + column * in_.width;
    for (int64_t j = 0; j < kLinearPanel; ++j) {
      pair_row(from + j * in_.width, in_.width, scratch_.rows + j * depth());
    }
    transpose_pairs(scratch_.rows, kLinearPanel, depth(), panel_of(panel));
  }

  void own_rows(int64_t block) const {
    const int64_t first = block * kLinearRows, count = std::min(kLinearRows, in_.rows - first);
    for (int64_t r = 0; r < count; ++r) {
      pair_row(in_.x + (first + r) * in_.width, in_.width, scratch_.rows + r * depth());
    }
    int64_t panel = 0;
    for (int64_t p = 0; p < in_.count; ++p) {
      const LinearPart& part = in_.parts[p];
      float* to = part.y + first * part.width;
      for (int64_t j = 0; j < part.width; j += kLinearPanel, ++panel) {
        product_of_rows<P>(count, {scratch_.rows, depth(), 1}, panel_of(panel), depth(), to + j,
                           part.width, Store::kWrite);
      }
      if (part.bias != nullptr) add_bias(part, count, to);
    }
  }

 private:
  static void add_bias(const LinearPart& part, int64_t count, float* to) {
    const Tag<float> d;
    for (int64_t r = 0; r < count; ++r, to += part.width) {
      for (int64_t j = 0; j < part.width; j += lanes<float>()) {
        hn::StoreU(hn::Add(hn::LoadU(d, to + j), hn::LoadU(d, part.bias + j)), d, to + j);
      }
    }
  }

  int64_t depth() const { return in_.width / 2; }
  P* panel_of(int64_t panel) const { return work_.weights + panel * depth() * kLinearPanel; }

  const LinearParams& in_;
  const LinearWorkspace<P> work_;
  const LinearScratch<P> scratch_;
};

template <typename P>
class LinearBackward {
 public:
  LinearBackward(const LinearGradientParams& params, const Memory& memory)
      : in_(params), work_(params, memory.workspace), scratch_(params, memory.scratch) {}

  // Pairs of 32 rows of the weights, for the gradient of x.
  void pack_weights(int64_t panel) const {
    const auto [part, column] = find_panel(in_, panel);
    const Tag<float> d;
    for (int64_t j = 0; j < kLinearPanel; j += 2) {
      const float* from = in_.parts[part].weight + (column + j) * in_.width;
      const int64_t k = (panel * kLinearPanel + j) / 2;
      for (int64_t i = 0; i < in_.width; i += lanes<float>()) {
        pair_vectors(hn::LoadU(d, from + i), hn::LoadU(d, from + in_.width + i),
                     weights(i / kLinearPanel) + k * kLinearPanel + i % kLinearPanel);
      }
    }
  }

  void own_rows(int64_t block) const {
    const int64_t first = block * kLinearRows, count = std::min(kLinearRows, in_.rows - first);
    std::fill_n(scratch_.none, std::max(work_.columns, in_.width), 0.0f);
    pair_inputs(first, count);
    float* sums = work_.bias_sums + block * work_.columns;
    std::fill_n(sums, work_.columns, 0.0f);
    int64_t begin = 0;
    for (int64_t p = 0; p < in_.count; ++p) {
      pair_gradients(in_.parts[p], begin, first, count, sums + begin);
      begin += in_.parts[p].width;
    }
    if (in_.x_gradient == nullptr) return;
    const int64_t depth = work_.columns / 2, panels = in_.width / kLinearPanel;
    // The next item's inputs are on their way meanwhile: they come from the forward pass, from
    // memory.
    const int64_t steps = steps_of_rows(count, panels, depth);
    const RowsAhead inputs{reinterpret_cast<const std::byte*>(in_.x),
                           in_.width * static_cast<int64_t>(sizeof(float))};
    const int64_t next = std::min(first + count, in_.rows);
    Ahead ahead = inputs.share(next, std::min(kLinearRows, in_.rows - next), steps);
    for (int64_t panel = 0; panel < panels; ++panel) {
      product_of_rows<P, true>(count, {scratch_.rows, depth, 1}, weights(panel), depth,
                               in_.x_gradient + first * in_.width + panel * kLinearPanel, in_.width,
                               Store::kWrite, ahead);
      ahead.at += steps / panels * ahead.step;
    }
  }

  // Gradients of 32 outputs, from all rows.
  void own_outputs(int64_t panel) const {
    constexpr int64_t kDepth = 96;  // pairs of rows whose parts of two panels stay in the L1 cache
    const auto [p, column] = find_panel(in_, panel);
    const LinearGradientPart& part = in_.parts[p];
    const P* gradients = work_.gradients + panel * work_.pairs * kLinearPanel;
    float* to = part.weight_gradient + column * in_.width;
    if (work_.pairs == 0) std::fill_n(to, kLinearPanel * in_.width, 0.0f);
    for (int64_t n = 0; n < work_.pairs; n += kDepth) {
      const int64_t depth = std::min(kDepth, work_.pairs - n);
      for (int64_t i = 0; i < in_.width; i += kLinearPanel) {
        product_of_rows<P>(kLinearPanel, {gradients + n * kLinearPanel, 1, kLinearPanel},
                           work_.inputs + i * work_.pairs + n * kLinearPanel, depth, to + i,
                           in_.width, n == 0 ? Store::kWrite : Store::kAdd);
      }
    }
    if (part.bias_gradient == nullptr) return;
    float* sums = part.bias_gradient + column;
    std::fill_n(sums, kLinearPanel, 0.0f);
    for (int64_t block = 0; block < work_.blocks; ++block) {
      const float* from = work_.bias_sums + block * work_.columns + panel * kLinearPanel;
      for (int64_t c = 0; c < kLinearPanel; ++c) sums[c] += from[c];
    }
  }

 private:
  P* weights(int64_t panel) const {
    return work_.weights + panel * work_.columns / 2 * kLinearPanel;
  }

  // Rows first … first + count - 1 of x, two and two, for the gradients of the weights.
  void pair_inputs(int64_t first, int64_t count) const {
    const Tag<float> d;
    for (int64_t r = 0; r < count; r += 2) {
      const float* one = in_.x + (first + r) * in_.width;
      const float* other = r + 1 < count ? one + in_.width : scratch_.none;
      P* const to = work_.inputs + (first + r) / 2 * kLinearPanel;
      for (int64_t i = 0; i < in_.width; i += lanes<float>()) {
        pair_vectors(hn::LoadU(d, one + i), hn::LoadU(d, other + i),
                     to + i / kLinearPanel * work_.pairs * kLinearPanel + i % kLinearPanel);
      }
    }
  }

  // The same of a part's output gradients, which stand behind `begin` columns of other parts; the
  // pairs of neighbours for the gradient of x; and the sums down the columns.
  void pair_gradients(const LinearGradientPart& part, int64_t begin, int64_t first, int64_t count,
                      float* sums) const {
    const Tag<float> d;
    const int64_t step = lanes<float>(), row_pairs = work_.columns / 2;
    for (int64_t r = 0; r < count; r += 2) {
      const float* one = part.y_gradient + (first + r) * part.width;
      const float* other = r + 1 < count ? one + part.width : scratch_.none;
      P* const to = work_.gradients + begin * work_.pairs + (first + r) / 2 * kLinearPanel;
      P* const neighbours = scratch_.rows + r * row_pairs + begin / 2;
      for (int64_t i = 0; i < part.width; i += 2 * step) {
        const Vec<float> a = hn::LoadU(d, one + i), b = hn::LoadU(d, one + i + step);
        const Vec<float> e = hn::LoadU(d, other + i), f = hn::LoadU(d, other + i + step);
        P* const pairs = to + i / kLinearPanel * work_.pairs * kLinearPanel + i % kLinearPanel;
        pair_vectors(a, e, pairs);
        pair_vectors(b, f, pairs + step);
        pair_neighbours(a, b, neighbours + i / 2);
        pair_neighbours(e, f, neighbours + row_pairs + i / 2);
        hn::StoreU(hn::Add(hn::LoadU(d, sums + i), hn::Add(a, e)), d, sums + i);
        hn::StoreU(hn::Add(hn::LoadU(d, sums + i + step), hn::Add(b, f)), d, sums + i + step);
      }
    }
  }

  const LinearGradientParams& in_;
  const LinearGradientWorkspace<P> work_;
  const LinearGradientScratch<P> scratch_;
};

template <typename P>
void forward_of(const LinearParams& params, int64_t phase, int64_t item, const Memory& memory) {
  const LinearForward<P> work(params, memory);
  phase == 0 ? work.pack_weights(item) : work.own_rows(item);
}

template <typename P>
void backward_of(const LinearGradientParams& params, int64_t phase, int64_t item,
                 const Memory& memory) {
  const LinearBackward<P> work(params, memory);
  if (phase == 0) return work.pack_weights(item);
  phase == 1 ? work.own_rows(item) : work.own_outputs(item);
}

void run_linear(const LinearParams& params, int64_t phase, int64_t item, const Memory& memory) {
  (params.instruction ? forward_of<Pair<true>> : forward_of<Pair<false>>)(params, phase, item,
                                                                          memory);
}
void run_linear_backward(const LinearGradientParams& params, int64_t phase, int64_t item,
                         const Memory& memory) {
  (params.instruction ? backward_of<Pair<true>> : backward_of<Pair<false>>)(params, phase, item,
                                                                            memory);
}

}  // namespace HWY_NAMESPACE
}  // namespace headwise::kernels::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headwise::kernels {
namespace cpu {
HWY_EXPORT(run_linear);
HWY_EXPORT(run_linear_backward);
namespace {

const char* kernel_name(bool instruction) {
  return instruction ? "cpu/linear, bfloat16 pairs" : "cpu/linear, bfloat16 pairs as floats";
}

}  // namespace
}  // namespace cpu

Plan plan(const LinearParams& params) {
  Plan plan{cpu::kernel_name(params.instruction), cpu::instruction_set(), {}};
  const int64_t columns = cpu::columns_of(params);
  const size_t scratch = cpu::LinearScratch<cpu::Pair<true>>(params, nullptr).bytes;
  plan.workspace_bytes = cpu::LinearWorkspace<cpu::Pair<true>>(params, nullptr).bytes;
  plan.phases.push_back({columns / cpu::kLinearPanel, scratch, cpu::kLinearPanel * params.width});
  plan.phases.push_back({cpu::divide_up(params.rows, cpu::kLinearRows), scratch,
                         cpu::kLinearRows * params.width * columns / 2});
  return plan;
}

void run(const LinearParams& params, size_t phase, const ItemRange& items, const Memory& memory) {
  for (int64_t item = items.begin; item < items.end; ++item) {
    HWY_DYNAMIC_DISPATCH(cpu::run_linear)(params, static_cast<int64_t>(phase), item, memory);
  }
}

Plan plan(const LinearGradientParams& params) {
  Plan plan{cpu::kernel_name(params.instruction), cpu::instruction_set(), {}};
  const int64_t columns = cpu::columns_of(params), panels = columns / cpu::kLinearPanel;
  const size_t scratch = cpu::LinearGradientScratch<cpu::Pair<true>>(params, nullptr).bytes;
  const cpu::LinearGradientWorkspace<cpu::Pair<true>> work(params, nullptr);
  plan.workspace_bytes = work.bytes;
  const bool differentiates_x = params.x_gradient != nullptr;
  plan.phases.push_back({differentiates_x ? panels : 0, 0, cpu::kLinearPanel * params.width});
  plan.phases.push_back({work.blocks, scratch,
                         cpu::kLinearRows * (differentiates_x ? params.width * columns / 2
                                                              : params.width + columns)});
  plan.phases.push_back({panels, 0, params.rows * params.width * cpu::kLinearPanel / 2});
  return plan;
}

void run(const LinearGradientParams& params, size_t phase, const ItemRange& items,
         const Memory& memory) {
  for (int64_t item = items.begin; item < items.end; ++item) {
    HWY_DYNAMIC_DISPATCH(cpu::run_linear_backward)
    (params, static_cast<int64_t>(phase), item, memory);
  }
}

}  // namespace headwise::kernels
#endif  // HWY_ONCE
