// Weights in the order in which the product reads them: panels of 64 columns, row after row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "csrc/kernels/cpu/round.h"
#include "csrc/kernels/transformer/params.h"

namespace headwise::kernels {

constexpr int64_t kPanelColumns = 64;

/// How the numbers of one side of a matrix lie among padded rows: `heads` times `width`, each
/// padded. A plain side is one head.
struct HeadSide {
  int64_t heads = 1, width = 0;
};

template <typename C>
constexpr int64_t padded_width(const HeadSide& side) {
  return side.heads * cpu::padded<C>(side.width);
}

/// A weight as torch keeps it: (outputs, inputs) row-major, and its bias (outputs) or null.
template <typename C>
struct PlainWeight {
  const C* weight = nullptr;
  const C* bias = nullptr;
  HeadSide out, in;
  C factor = 1;  // of weight and bias
};

template <typename C>
class MatrixPacker {
 public:
  explicit MatrixPacker(const PlainWeight<C>& from)
      : from_(from),
        width_(padded_width<C>(from.out)),
        inputs_(padded_width<C>(from.in)),
        depth_(inputs_ + (from.bias == nullptr ? 0 : 1)) {}

  int64_t size() const { return depth_ * width_; }

  /// Fills size() numbers, which must outlive the result.
  PackedMatrix<C> pack(C* to) const {
    const int64_t outs = from_.out.heads * from_.out.width;
    const int64_t ins = from_.in.heads * from_.in.width;
    std::fill_n(to, size(), C{0});
    for (int64_t o = 0; o < outs; ++o) {
      const int64_t column = place(from_.out, o);
      for (int64_t i = 0; i < ins; ++i) {
        to[index(place(from_.in, i), column)] = from_.factor * from_.weight[o * ins + i];
      }
      if (from_.bias != nullptr) to[index(inputs_, column)] = from_.factor * from_.bias[o];
    }
    return {to, depth_, width_};
  }

 private:
  static int64_t place(const HeadSide& side, int64_t i) {
    return i / side.width * cpu::padded<C>(side.width) + i % side.width;
  }
  int64_t index(int64_t row, int64_t column) const {
    const int64_t panel = column / kPanelColumns * kPanelColumns;
    const int64_t columns = std::min(kPanelColumns, width_ - panel);
    return panel * depth_ + row * columns + column - panel;
  }

  const PlainWeight<C>& from_;
  const int64_t width_, inputs_, depth_;
};

}  // namespace headwise::kernels
