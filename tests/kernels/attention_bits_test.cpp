// What may not change a bit: the order of items, what memory held before, a second run, the layout
// of tensors, padding, and how a mask is written down.
#include <gtest/gtest.h>

#include <limits>
#include <vector>

#include "tests/kernels/attention_checks.h"

namespace headwise::testing {
namespace {

constexpr uint64_t kRandomSeed = 20261201;
#ifdef __SANITIZE_ADDRESS__
constexpr int kRandomCount = 10;
#else
constexpr int kRandomCount = 60;
#endif

template <typename T>
void run_all(Case<T>& problem, Order order = Order::kForwards, Rubbish rubbish = Rubbish::kNaN) {
  run_plan(problem.forward(), order, rubbish);
  if (problem.spec().beam != 0) return;
  run_plan(problem.weights(), order, rubbish);
  run_plan(problem.backward(), order, rubbish);
}

template <typename T>
class AttentionBits : public ::testing::Test {
 protected:
  static std::vector<Spec> specs() {
    std::vector<Spec> all = random_specs(kRandomCount, kRandomSeed);
    for (const Spec& spec : long_specs()) {
      if (spec.batch > 1 || spec.queries > 500) all.push_back(spec);
    }
    return all;
  }
};
TYPED_TEST_SUITE(AttentionBits, ElementTypes, TypeNames);

TYPED_TEST(AttentionBits, DependNeitherOnOrderNorOnMemory) {
  for (const Spec& spec : this->specs()) {
    SCOPED_TRACE(spec.name);
    Case<TypeParam> one(spec), two(spec), three(spec);
    run_all(one);
    run_all(two, Order::kBackwards, Rubbish::kZero);
    run_all(three, Order::kShuffled, Rubbish::kNumbers);
    ASSERT_TRUE(one.same_results(two));
    ASSERT_TRUE(one.same_results(three));
    run_all(one);  // again
    ASSERT_TRUE(one.same_results(two));
  }
}

TYPED_TEST(AttentionBits, AreTheSamePaddedAndPacked) {
  for (Spec spec : this->specs()) {
    if (spec.beam != 0) continue;
    SCOPED_TRACE(spec.name);
    spec.packed = false;
    spec.lengths = true;
    spec.layout = spec.gradient_layout = Layout::kHeadsFirst;
    Case<TypeParam> padded(spec);
    run_all(padded);
    spec.packed = true;
    spec.layout = spec.gradient_layout = Layout::kRowsFirst;
    Case<TypeParam> packed(spec);
    run_all(packed);
    ASSERT_TRUE(padded.same_results(packed));
  }
}

// The longest length of packed sequences is a hint. (Up to 8 queries it decides whether keys are
// split, which shows in the last bits.)
TYPED_TEST(AttentionBits, DoNotDependOnTheLongestLength) {
  for (Spec spec : this->specs()) {
    if (spec.beam != 0 || spec.queries <= 8) continue;
    SCOPED_TRACE(spec.name);
    spec.packed = true;
    spec.mask = spec.bias = std::nullopt;
    Case<TypeParam> one(spec), two(spec);
    run_plan(one.forward());
    run_plan(one.backward());
    auto forward = two.forward();
    forward.sequences.query_rows += 300;
    forward.sequences.key_rows += 300;
    run_plan(forward);
    auto backward = two.backward();
    backward.sequences = forward.sequences;
    run_plan(backward);
    ASSERT_TRUE(one.same_rows(two));
  }
}

TYPED_TEST(AttentionBits, DoNotDependOnStrides) {
  for (Spec spec : this->specs()) {
    SCOPED_TRACE(spec.name);
    spec.layout = spec.gradient_layout = Layout::kDense;
    Case<TypeParam> dense(spec);
    run_all(dense);
    for (const Layout layout :
         {Layout::kRowsFirst, Layout::kStridedColumns, Layout::kColumnsFirst}) {
      spec.layout = spec.gradient_layout = layout;
      Case<TypeParam> other(spec);
      run_all(other);
      // Results of the dense case have other gaps, so only their rows are compared.
      ASSERT_TRUE(dense.same_rows(other));
    }
  }
}

// A mask that hides and a bias of -inf at the same places are the same thing.
TEST(AttentionMask, IsTheSameAsBiasOfMinusInfinity) {
  Spec spec{.name = "mask or bias",
            .queries = 70,
            .keys = 300,
            .causal = true,
            .mask = Axes{true, true, true, true},
            .hide_tiles = true};
  Case<float> masked(spec), biased(spec);
  auto params = masked.forward(), with_bias = biased.forward();
  std::vector<float> bias;
  for (int64_t n = 0; n < 2 * 2 * 70 * 300; ++n) {
    const bool hides = params.mask.hides(n / 42000, n / 21000 % 2, n / 300 % 70, n % 300);
    bias.push_back(hides ? -std::numeric_limits<float>::infinity() : 0.0f);
  }
  with_bias.mask = {};
  with_bias.bias = {bias.data(), true, 42000, 21000, 300, 1};
  run_plan(params);
  run_plan(with_bias);
  EXPECT_TRUE(masked.same_rows(biased));
}

}  // namespace
}  // namespace headwise::testing
