// Compiled, never run: device code uses what the headers promise to share with it.
#include "csrc/kernels/attention/mask.h"
#include "csrc/kernels/attention/params.h"
#include "csrc/kernels/dropout.h"
#include "csrc/kernels/element.h"

namespace headwise::kernels {

__global__ void use_dropout(Dropout dropout, double probability, uint32_t* words, bool* kept) {
  dropout.threshold = dropout_threshold(probability);
  const Philox4 bits = dropout_bits(dropout, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x % 4);
  for (int w = 0; w < 4; ++w) words[w] = bits.word[w];
  *kept = dropout_keeps(dropout, 1, 2, threadIdx.x) && dropout_scale(dropout) > 1.0;
}

__global__ void use_mask(MaskRule rule, KeyRange* range) {
  *range = visible_range(rule, threadIdx.x, blockDim.x, blockDim.x);
}

template <typename T>
__global__ void use_element(const T* from, T* to) {
  to[threadIdx.x] = from_compute<T>(to_compute(from[threadIdx.x]));
}
template __global__ void use_element<float>(const float*, float*);
template __global__ void use_element<double>(const double*, double*);
template __global__ void use_element<BFloat16>(const BFloat16*, BFloat16*);
template __global__ void use_element<Half>(const Half*, Half*);

template <typename T>
__global__ void use_params(ForwardParams<T> p, BackwardParams<T> gradients) {
  const int64_t b = blockIdx.x, h = blockIdx.y, j = threadIdx.x;
  const Span queries = p.sequences.query(b), keys = p.sequences.key(b);
  const int64_t i = queries.first, row = p.beam_index.row(b, j);
  if (p.mask.hides(b, h, i, j) || j >= keys.length) return;
  const Compute<T> score = to_compute(p.query.at(b, h, i, 0)) *
                           to_compute(p.key.at(row, p.group_of(h), keys.first + j, 0));
  *p.lse.at(b, h, i) = score + p.bias.template at<T>(b, h, i, j);
  p.output.at(b, h, i, 0) = p.value.at(row, p.group_of(h), keys.first + j, 0);
  gradients.query_gradient.at(b, h, i, 0) = gradients.output_gradient.at(b, h, i, 0);
}
template __global__ void use_params<float>(ForwardParams<float>, BackwardParams<float>);
template __global__ void use_params<double>(ForwardParams<double>, BackwardParams<double>);
template __global__ void use_params<BFloat16>(ForwardParams<BFloat16>, BackwardParams<BFloat16>);
template __global__ void use_params<Half>(ForwardParams<Half>, BackwardParams<Half>);

}  // namespace headwise::kernels
