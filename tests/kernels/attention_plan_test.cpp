// Which kernel a plan names, and how much memory it asks for.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/kernels/attention_checks.h"

namespace headwise::testing {
namespace {

template <typename T>
class AttentionPlan : public ::testing::Test {
 protected:
  template <typename Params>
  static Params sized(int64_t queries, int64_t keys) {
    Params params;
    params.heads = params.kv_heads = 2;
    params.width = params.value_width = 64;
    params.sequences.count = 1;
    params.sequences.query_rows = queries;
    params.sequences.key_rows = keys;
    return params;
  }
  template <typename Params>
  static size_t scratch(int64_t queries, int64_t keys) {
    size_t bytes = 0;
    for (const auto& phase : kernels::plan(sized<Params>(queries, keys)).phases) {
      bytes = std::max(bytes, phase.scratch_bytes);
    }
    return bytes;
  }
};
TYPED_TEST_SUITE(AttentionPlan, ElementTypes, TypeNames);

TYPED_TEST(AttentionPlan, NamesKernelAndInstructionSet) {
  using T = TypeParam;
  ASSERT_FALSE(kernels::cpu::instruction_sets().empty());
  for (const std::string& set : kernels::cpu::instruction_sets()) {
    const WithInstructionSet with(set);
    Case<T> problem({.bias = Axes{}});
    const kernels::Plan plans[] = {kernels::plan(problem.forward()),
                                   kernels::plan(problem.backward()),
                                   kernels::plan(problem.weights())};
    for (const kernels::Plan& plan : plans) {
      EXPECT_STREQ(plan.kernel, "cpu/tiles");
      EXPECT_EQ(plan.instruction_set, set);
    }
    EXPECT_EQ(plans[0].phases.size(), 1u);
    EXPECT_EQ(plans[1].phases.size(), 2u);  // one block, then the bias
  }
  EXPECT_STREQ(kernels::cpu::instruction_set(), kernels::cpu::instruction_sets()[0].c_str());
  EXPECT_THROW(kernels::cpu::use_instruction_set("abacus"), std::invalid_argument);
  kernels::cpu::use_instruction_set("");
}

TYPED_TEST(AttentionPlan, SplitsKeysOfFewQueriesOnly) {
  using Forward = kernels::ForwardParams<TypeParam>;
  const auto phases = [&](int64_t queries, int64_t keys) {
    return kernels::plan(this->template sized<Forward>(queries, keys)).phases.size();
  };
  EXPECT_EQ(phases(8, 1024), 1u);
  EXPECT_EQ(phases(8, 1025), 2u);
  EXPECT_EQ(phases(9, 5000), 1u);
}

// No scores of all rows and keys: scratch stops growing, the workspace grows with the rows.
TYPED_TEST(AttentionPlan, NeedsNoScoreMatrix) {
  using T = TypeParam;
  using Forward = kernels::ForwardParams<T>;
  using Backward = kernels::BackwardParams<T>;
  EXPECT_EQ((this->template scratch<Forward>(16384, 16384)),
            (this->template scratch<Forward>(1024, 1024)));
  EXPECT_EQ((this->template scratch<Backward>(16384, 16384)),
            (this->template scratch<Backward>(1024, 1024)));
  EXPECT_LE((this->template scratch<Backward>(16384, 16384)), 2u << 20);
  const size_t workspace =
      kernels::plan(this->template sized<Backward>(16384, 16384)).workspace_bytes;
  const size_t gradients = size_t{3} * 16384 * 2 * 64 * sizeof(float);
  constexpr bool kSumsInResults = std::is_same_v<T, kernels::Compute<T>>;
  EXPECT_EQ(workspace, kSumsInResults ? 0 : gradients);
}

}  // namespace
}  // namespace headwise::testing
