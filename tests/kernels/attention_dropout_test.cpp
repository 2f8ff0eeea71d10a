// The weights that the kernels drop are those of dropout.h, whatever tile they lie in: the pattern
// is read out of output and gradient through one-hot values.
#include <gtest/gtest.h>

#include <vector>

#include "tests/kernels/attention_checks.h"

namespace headwise::testing {
namespace {

// Values and output gradients are rows of the identity, moved by `shift`: output column d shows the
// weight of key d + shift, column d of a value's gradient that of row d + shift.
template <typename T>
void make_one_hot(const kernels::View<const T>& view, const Sizes& sizes, int64_t shift) {
  for (int64_t n = 0; n < sizes.batch * sizes.head * sizes.row; ++n) {
    const int64_t i = n % sizes.row, bh = n / sizes.row;
    for (int64_t d = 0; d < sizes.column; ++d) {
      const_cast<T&>(view.at(bh / sizes.head, bh % sizes.head, i, d)) =
          convert<T>(i == d + shift ? 1.0 : 0.0);
    }
  }
}

// Number of weights that are 0 and should not be, or the other way round.
template <typename T>
int64_t wrong_bits(const Spec& spec, int64_t shift) {
  Case<T> problem(spec);
  auto forward = problem.forward();
  make_one_hot(forward.value, {spec.batch, spec.kv_heads, spec.keys, spec.value_width}, shift);
  run_plan(forward);
  auto backward = problem.backward();
  make_one_hot(backward.output_gradient, {spec.batch, spec.heads, spec.queries, spec.value_width},
               shift);
  run_plan(backward);
  const Reference<double, T> rule(problem.inputs());
  int64_t wrong = 0;
  for (int64_t n = 0; n < spec.batch * spec.heads; ++n) {
    const int64_t b = n / spec.heads, h = n % spec.heads;
    const auto kept = [&](int64_t i, int64_t j) {
      return rule.visible(b, h, i, j) && kernels::dropout_keeps(problem.inputs().dropout, n, i, j);
    };
    for (int64_t d = 0; d < spec.value_width; ++d) {
      for (int64_t i = 0; i < spec.queries && d + shift < spec.keys; ++i) {
        const T weight = forward.output.at(b, h, i, d);
        wrong += (kernels::to_compute(weight) != 0) != kept(i, d + shift);
      }
      for (int64_t j = 0; j < spec.keys && d + shift < spec.queries; ++j) {
        const T weight = backward.value_gradient.at(b, h, j, d);
        wrong += (kernels::to_compute(weight) != 0) != kept(d + shift, j);
      }
    }
  }
  return wrong;
}

template <typename T>
class AttentionDropout : public ::testing::Test {};
TYPED_TEST_SUITE(AttentionDropout, ElementTypes, TypeNames);

TYPED_TEST(AttentionDropout, DropsWhatTheDefinitionDrops) {
  std::vector<Spec> specs = {
      {.name = "one block of columns", .queries = 30, .keys = 31},
      {.name = "tiles", .queries = 100, .keys = 300},
      {.name = "causal", .queries = 120, .keys = 270, .causal = true},
      {.name = "odd starts", .queries = 150, .keys = 290, .left = 37, .right = 29},
      {.name = "narrow", .queries = 60, .keys = 60, .left = 1, .right = 1},
      {.name = "many columns", .queries = 3, .keys = 700},
  };
  for (const std::string& set : kernels::cpu::instruction_sets()) {
    const WithInstructionSet with(set);
    for (Spec& spec : specs) {
      SCOPED_TRACE(spec.name + ", " + set);
      spec.batch = 2;
      spec.heads = spec.kv_heads = 3;  // a group would add several heads in a value's gradient
      spec.value_width = 256;
      spec.magnitude = 0.1;  // no weight is too small for its type
      spec.dropout = 0.4;
      for (const int64_t shift : {0, 256, 512}) {
        if (shift < std::max(spec.queries, spec.keys)) {
          EXPECT_EQ(wrong_bits<TypeParam>(spec, shift), 0);
        }
      }
    }
  }
}

// The threshold itself is kept, one below it is not.
TYPED_TEST(AttentionDropout, CutsExactlyAtTheThreshold) {
  using T = TypeParam;
  for (const std::string& set : kernels::cpu::instruction_sets()) {
    SCOPED_TRACE(set);
    const WithInstructionSet with(set);
    Case<T> problem({.batch = 1, .heads = 1, .kv_heads = 1, .queries = 1, .keys = 1});
    auto params = problem.forward();
    params.dropout = {99, 3, 0};
    const uint32_t half = reference_philox({0, 0, 0, 3}, {99, 0})[0] % 65536;
    const auto first = [&](uint32_t threshold) {
      params.dropout.threshold = threshold;
      run_plan(params);
      return static_cast<double>(kernels::to_compute(params.output.at(0, 0, 0, 0)));
    };
    const double whole = first(0);
    EXPECT_NEAR(first(half), whole * 65536 / (65536 - half), 2 * kEpsilon<T> * std::abs(whole));
    EXPECT_EQ(first(half + 1), 0.0);
  }
}

}  // namespace
}  // namespace headwise::testing
