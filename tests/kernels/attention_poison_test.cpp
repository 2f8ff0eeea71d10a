// NaN and infinity where something sees them: they must show there, and reach nothing else.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/attention_checks.h"

namespace headwise::testing {
namespace {

template <typename T>
class AttentionPoison : public ::testing::Test {};
TYPED_TEST_SUITE(AttentionPoison, ElementTypes, TypeNames);

// Problems in which keys are hidden for some rows only: by position, by windows, by entries.
std::vector<Spec> mixed_specs() {
  std::vector<Spec> specs;
  for (const auto& [queries, keys] : {std::pair{20, 23}, std::pair{110, 300}, {300, 290}}) {
    Spec spec{.name = "causal", .queries = queries, .keys = keys, .causal = true};
    specs.push_back(spec);
    spec.name = "causal, packed, dropout";
    spec.packed = true;
    spec.dropout = 0.3;
    specs.push_back(spec);
    specs.push_back(
        {.name = "window", .heads = 4, .queries = queries, .keys = keys, .left = 9, .right = 4});
    specs.push_back({.name = "mask",
                     .queries = queries,
                     .keys = keys,
                     .mask = Axes{false, true, true, true},
                     .layout = Layout::kDense});
    specs.push_back({.name = "bias",
                     .queries = queries,
                     .keys = keys,
                     .bias = Axes{true, false, true, true},
                     .dropout = 0.2,
                     .lse_gradient = true});
    specs.push_back({.name = "tiles",
                     .heads = 4,
                     .queries = queries,
                     .keys = keys,
                     .mask = Axes{false, false, true, true},
                     .hide_tiles = true});
  }
  return specs;
}

// The judge adds nothing of what a row does not see, so where it is finite the kernel must be.
template <typename T>
void expect_contained(Poison poison) {
  std::vector<Spec> specs = mixed_specs();
  for (Spec& spec : specs) spec.poison = poison;
  for (const RunError& run : check_specs<T>(specs)) {
    for (const char* what : {"output", "dQ", "dK", "dV"}) {
      EXPECT_GT(run.count(what), 1000) << "hardly any " << what << " is clean";
    }
    EXPECT_GT(run.poisoned_count("dQ"), 0);
  }
}

TYPED_TEST(AttentionPoison, OfKeysReachesOnlyRowsThatSeeThem) {
  expect_contained<TypeParam>(Poison::kKeys);
}
TYPED_TEST(AttentionPoison, OfValuesReachesOnlyRowsThatSeeThem) {
  expect_contained<TypeParam>(Poison::kValues);
}
TYPED_TEST(AttentionPoison, OfQueriesReachesOnlyKeysTheySee) {
  expect_contained<TypeParam>(Poison::kQueries);
}
TYPED_TEST(AttentionPoison, OfGradientsReachesOnlyKeysTheirRowsSee) {
  expect_contained<TypeParam>(Poison::kGradients);
}

// The smallest such case: row 0 sees key 0 only and is NaN; row 1 sees both keys. What row 0 does
// not see stays clean: its weight of key 1, and the gradients of key 1.
TYPED_TEST(AttentionPoison, OfOneRowLeavesTheKeyItDoesNotSeeAlone) {
  using T = TypeParam;
  for (const std::string& set : kernels::cpu::instruction_sets()) {
    SCOPED_TRACE(set);
    const WithInstructionSet with(set);
    Case<T> problem(
        {.batch = 1, .heads = 1, .kv_heads = 1, .queries = 2, .keys = 2, .causal = true});
    const auto forward = problem.forward();
    const_cast<T&>(forward.query.at(0, 0, 0, 0)) =
        convert<T>(std::numeric_limits<double>::quiet_NaN());
    run_plan(forward);
    const auto weights = problem.weights();
    run_plan(weights);
    const auto backward = problem.backward();
    run_plan(backward);
    EXPECT_EQ(kernels::to_compute(weights.weights.at(0, 0, 0, 1)), 0);
    for (int64_t d = 0; d < 8; ++d) {
      EXPECT_TRUE(std::isfinite(kernels::to_compute(backward.query_gradient.at(0, 0, 1, d))));
      EXPECT_TRUE(std::isfinite(kernels::to_compute(backward.key_gradient.at(0, 0, 1, d))));
      EXPECT_TRUE(std::isfinite(kernels::to_compute(backward.value_gradient.at(0, 0, 1, d))));
    }
  }
}

// NaN and infinity among the visible numbers must show, not vanish in exp or in a conversion.
TYPED_TEST(AttentionPoison, ShowsWhereItIsVisible) {
  using T = TypeParam;
  for (const std::string& set : kernels::cpu::instruction_sets()) {
    SCOPED_TRACE(set);
    const WithInstructionSet with(set);
    for (const double bad :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      for (const int64_t keys : {20, 200}) {
        Case<T> problem(
            {.batch = 1, .heads = 1, .kv_heads = 1, .queries = 2, .keys = keys, .width = 16});
        auto params = problem.forward();
        for (const int64_t column : {3, 15}) {
          const_cast<T&>(params.query.at(0, 0, 1, column)) = convert<T>(bad);
        }
        run_plan(params);
        EXPECT_TRUE(std::isfinite(kernels::to_compute(params.output.at(0, 0, 0, 0))));
        EXPECT_TRUE(std::isnan(kernels::to_compute(params.output.at(0, 0, 1, 0)))) << bad;
      }
    }
  }
}

// So must those among the values, in the columns that hold them.
TYPED_TEST(AttentionPoison, OfAValueShowsInItsColumn) {
  using T = TypeParam;
  for (const std::string& set : kernels::cpu::instruction_sets()) {
    SCOPED_TRACE(set);
    const WithInstructionSet with(set);
    for (const double bad :
         {std::numeric_limits<double>::quiet_NaN(), -std::numeric_limits<double>::infinity()}) {
      Case<T> problem({.batch = 1, .heads = 1, .kv_heads = 1, .queries = 3, .value_width = 16});
      auto params = problem.forward();
      const_cast<T&>(params.value.at(0, 0, 2, 1)) = convert<T>(bad);
      run_plan(params);
      for (int64_t d = 0; d < 16; ++d) {
        EXPECT_EQ(std::isfinite(kernels::to_compute(params.output.at(0, 0, 1, d))), d != 1) << bad;
      }
    }
  }
}

}  // namespace
}  // namespace headwise::testing
