// Forward, backward and weights against the plain loops of reference.h, for every number type and
// over every instruction set of this CPU.
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/kernels/attention_checks.h"

namespace headwise::testing {
namespace {

constexpr uint64_t kRandomSeed = 20261130;
#ifdef __SANITIZE_ADDRESS__
constexpr int kRandomCount = 40;  // the sanitizers are slow
#else
constexpr int kRandomCount = 250;
#endif

template <typename T>
class AttentionTest : public ::testing::Test {};
TYPED_TEST_SUITE(AttentionTest, ElementTypes, TypeNames);

TYPED_TEST(AttentionTest, AgreesWithTheReferenceAtTheEdges) {
  check_specs<TypeParam>(edge_specs());
}

TYPED_TEST(AttentionTest, AgreesWithTheReferenceAcrossTilesAndBlocks) {
  check_specs<TypeParam>(long_specs());
}

TYPED_TEST(AttentionTest, AgreesWithTheReferenceForRandomCombinations) {
  check_specs<TypeParam>(random_specs(kRandomCount, kRandomSeed));
}

// More than 65535 sequences and heads.
TEST(AttentionSizes, HaveNoSmallLimit) {
  Spec spec{.name = "many sequences",
            .batch = 70000,
            .heads = 1,
            .kv_heads = 1,
            .queries = 2,
            .keys = 2,
            .width = 2,
            .value_width = 2};
  Spec heads = spec;
  std::swap(heads.batch, heads.heads);
  heads.kv_heads = heads.heads;
  for (const Spec& one : {spec, heads}) {
    RunError run;
    JudgedCase<float>(one).check(run);
  }
}

}  // namespace
}  // namespace headwise::testing
