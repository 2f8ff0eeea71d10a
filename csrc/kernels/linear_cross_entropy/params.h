// What the fused output layer and cross-entropy sees. Glossary: N rows, E width, V classes.
#pragma once

#include <cstdint>

#include "csrc/kernels/plan.h"

namespace headwise::kernels {

/// Scores z = hidden weight^T + bias, their log-softmax against the labels, and the gradients of
/// the sum of all losses, without ever holding all scores. C is float or double.
template <typename C>
struct LinearCrossEntropyParams {
  /// Widths must be a multiple of this.
  static constexpr int64_t kWidthMultiple = 64 / sizeof(C);
  /// And of this for products of bfloat16.
  static constexpr int64_t kPairWidthMultiple = 32;

  /// Products of factors rounded to bfloat16, summed in float; C must be float.
  bool bfloat16 = false;
  bool instruction = false;  // multiply them by AVX512_BF16's instruction, which must be there

  int64_t rows = 0, width = 0, classes = 0;  // N, E, V
  const C* hidden = nullptr;                 // (N, E) contiguous
  const C* weight = nullptr;                 // (V, E) contiguous
  const C* bias = nullptr;                   // (V) or null
  const int64_t* labels = nullptr;           // (N); a row whose label is no class is left out
  const C* row_weight = nullptr;             // (N) or null = 1
  double smoothing = 0;                      // spread evenly over all classes
  /// Not 0: rows 2n and 2n + 1 are one position seen twice, N is even, and each row's loss has
  /// consistency / 2 times its Kullback-Leibler divergence from its partner, times the mean of
  /// both row weights; 0 where one of them is left out.
  double consistency = 0;
  double* loss = nullptr;  // (N) times row weight: (1 - e) nll + e mean over classes of -log p
  double* nll = nullptr;   // (N) times row weight: -log p of the label
  C* hidden_gradient = nullptr;  // (N, E) written; null = no gradients
  C* weight_gradient = nullptr;  // (V, E) written; null = no gradients
  C* bias_gradient = nullptr;    // (V) written; null without bias or gradients
};

template <typename C>
Plan plan(const LinearCrossEntropyParams<C>& params);
template <typename C>
void run(const LinearCrossEntropyParams<C>& params, size_t phase, const ItemRange& items,
         const Memory& memory);

}  // namespace headwise::kernels
