// instruction_probe CASE: runs one kernel on a small case, for callgrind to count its instructions
// (tests/python/test_instruction_counts.py). Without CASE it prints the compiler and the cases.
#include <cstdio>
#include <functional>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "csrc/kernels/linear/params.h"
#include "csrc/kernels/linear_cross_entropy/params.h"
#include "csrc/kernels/residual_norm/params.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/row_case.h"

/// What callgrind counts: everything inside of this function, found by its name.
extern "C" [[gnu::noinline]] void headwise_counted(const std::function<void()>& work) {
  work();
  asm volatile("");  // not a tail call
}

namespace headwise::testing {
namespace {

struct Block {
  explicit Block(size_t bytes) : data(::operator new (bytes + 64, std::align_val_t{64})) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  ~Block() { ::operator delete (data, std::align_val_t{64}); }
  void* const data;
};

template <typename Params>
void count(const Params& params) {
  const kernels::Plan work = plan(params);
  const Block workspace(work.workspace_bytes);
  for (size_t phase = 0; phase < work.phases.size(); ++phase) {
    const Block scratch(work.phases[phase].scratch_bytes);
    headwise_counted([&] {
      run(params, phase, {0, work.phases[phase].items}, {scratch.data, workspace.data});
    });
  }
}

std::vector<float> numbers(int64_t count) {
  Random random{count};
  return random_rows<float>(random, 1, count, count);
}

void attention() {
  Spec spec;
  spec.heads = spec.kv_heads = 4;
  spec.queries = spec.keys = 20;
  spec.width = spec.value_width = 32;
  spec.lengths = true;
  spec.query_lengths = spec.key_lengths = {20, 13};
  spec.dropout = 0.1;
  Case<float> c(spec);
  count(c.forward());
  count(c.backward());
}

void linear() {
  constexpr int64_t kRows = 96, kWidth = 64;
  auto x = numbers(kRows * kWidth), weight = numbers(kWidth * kWidth), bias = numbers(kWidth);
  auto y = x, x_gradient = x, weight_gradient = weight, bias_gradient = bias;
  kernels::LinearParams forward;
  forward.rows = kRows;
  forward.width = kWidth;
  forward.x = x.data();
  forward.count = 1;
  forward.parts[0] = {kWidth, weight.data(), bias.data(), y.data()};
  count(forward);
  kernels::LinearGradientParams backward;
  backward.rows = kRows;
  backward.width = kWidth;
  backward.x = x.data();
  backward.x_gradient = x_gradient.data();
  backward.count = 1;
  backward.parts[0] = {kWidth, weight.data(), y.data(), weight_gradient.data(),
                       bias_gradient.data()};
  count(backward);
}

void loss(bool bfloat16) {
  constexpr int64_t kRows = 72, kWidth = 64, kClasses = 600;
  auto hidden = numbers(kRows * kWidth), weight = numbers(kClasses * kWidth);
  auto hidden_gradient = hidden, weight_gradient = weight;
  std::vector<int64_t> labels(kRows);
  for (int64_t n = 0; n < kRows; ++n) labels[n] = n * 7;
  std::vector<double> losses(kRows), nll(kRows);
  kernels::LinearCrossEntropyParams<float> params;
  params.bfloat16 = bfloat16;
  params.rows = kRows;
  params.width = kWidth;
  params.classes = kClasses;
  params.hidden = hidden.data();
  params.weight = weight.data();
  params.labels = labels.data();
  params.smoothing = 0.1;
  params.loss = losses.data();
  params.nll = nll.data();
  params.hidden_gradient = hidden_gradient.data();
  params.weight_gradient = weight_gradient.data();
  count(params);
}

void residual_norm() {
  constexpr int64_t kRows = 64, kWidth = 128;
  auto x = numbers(kRows * kWidth), branch = x, sum = x, normed = x, gradient = x, other = x;
  auto weight = numbers(kWidth), bias = weight, weight_gradient = weight, bias_gradient = weight;
  std::vector<float> mean(kRows), inverse(kRows);
  kernels::ResidualNormParams<float> forward;
  forward.rows = kRows;
  forward.width = forward.stride = kWidth;
  forward.x = x.data();
  forward.branch = branch.data();
  forward.weight = weight.data();
  forward.bias = bias.data();
  forward.epsilon = 1e-5;
  forward.dropout = some_dropout(0.1);
  forward.sum = sum.data();
  forward.normed = normed.data();
  forward.mean = mean.data();
  forward.inverse = inverse.data();
  count(forward);
  kernels::ResidualNormGradientParams<float> backward;
  backward.rows = kRows;
  backward.width = backward.stride = kWidth;
  backward.sum = sum.data();
  backward.mean = mean.data();
  backward.inverse = inverse.data();
  backward.weight = weight.data();
  backward.normed_gradient = normed.data();
  backward.dropout = forward.dropout;
  backward.x_gradient = gradient.data();
  backward.branch_gradient = other.data();
  backward.weight_gradient = weight_gradient.data();
  backward.bias_gradient = bias_gradient.data();
  count(backward);
}

const std::map<std::string, std::function<void()>> kCases = {{"attention", attention},
                                                             {"linear_bfloat16", linear},
                                                             {"loss", [] { loss(false); }},
                                                             {"loss_bfloat16", [] { loss(true); }},
                                                             {"residual_norm", residual_norm}};

}  // namespace
}  // namespace headwise::testing

int main(int count, char** arguments) {
  using headwise::testing::kCases;
  if (count == 1) {
    std::printf("%s\n", __VERSION__);
    for (const auto& [name, run] : kCases) std::printf("%s\n", name.c_str());
    return 0;
  }
  const auto found = kCases.find(arguments[1]);
  if (found == kCases.end()) {
    std::fprintf(stderr, "instruction_probe: no case \"%s\"\n", arguments[1]);
    return 2;
  }
  found->second();
  return 0;
}
