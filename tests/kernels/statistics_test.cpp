// The statistics of the weights against plain loops over the weights of reference.h, over every
// instruction set of this CPU.
#include "csrc/kernels/attention/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "csrc/kernels/cpu/instruction_set.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/run_plan.h"

namespace headwise::testing {
namespace {

using kernels::kLargestOffset;

template <typename T>
using Judge = std::conditional_t<std::is_same_v<T, float>, double, long double>;

/// A problem with its statistics measured, (B, H, columns).
template <typename T>
struct Measured {
  Case<T> problem;
  std::vector<T> statistics;
  kernels::StatisticsParams<T> params;

  explicit Measured(const Spec& spec, Order order = Order::kForwards)
      : problem(spec), statistics(spec.batch * spec.heads * kernels::kStatisticsColumns, T{-7}) {
    run_plan(problem.forward());
    static_cast<kernels::AttentionInputs<T>&>(params) = problem.inputs();
    params.value_heads = params.kv_heads;
    params.lse = problem.weights().lse;
    params.statistics = statistics.data();
    run_plan(params, order);
  }
  double at(int64_t b, int64_t h, int64_t column) const {
    return statistics[(b * params.heads + h) * kernels::kStatisticsColumns + column];
  }
};

/// One version of the weights of a head, (T_q, T_k), and what is to be said about them.
template <typename C>
struct Loops {
  int64_t queries, keys, diagonal;
  std::vector<bool> visible;
  std::vector<C> weights;

  int64_t seen(int64_t i) const {
    return std::count(visible.begin() + i * keys, visible.begin() + (i + 1) * keys, true);
  }

  void rows(std::vector<C>& want) const {
    for (int64_t i = 0; i < queries; ++i) {
      const int64_t n = seen(i);
      want[kernels::kRows] += n > 0;
      want[kernels::kRowsWithChoice] += n > 1;
      if (n > 0) want[kernels::kChance] += C(1) / C(n);
      for (int64_t offset = -kLargestOffset; offset <= kLargestOffset; ++offset) {
        const int64_t j = i + diagonal + offset;
        want[kernels::kRowsAt + kLargestOffset + offset] +=
            j >= 0 && j < keys && visible[i * keys + j];
      }
    }
    for (int64_t j = 0; j < keys; ++j) {
      bool any = false;
      for (int64_t i = 0; i < queries; ++i) any = any || visible[i * keys + j];
      want[kernels::kKeys] += any;
    }
  }

  void row(int64_t i, C* want) const {
    const C* w = weights.data() + i * keys;
    C entropy = 0;
    int64_t top = 0;
    for (int64_t j = 0; j < keys; ++j) {
      if (w[j] > 0) entropy -= w[j] * std::log(w[j]);
      want[kernels::kDistance] += w[j] * C(std::abs(j - i - diagonal));
      if (w[j] > w[top]) top = j;
    }
    if (w[top] == 0) return;
    const int64_t n = seen(i);
    want[kernels::kEntropy] += entropy;
    if (n > 1) want[kernels::kNormalisedEntropy] += entropy / std::log(C(n));
    want[kernels::kEffectiveKeys] += std::exp(entropy);
    want[kernels::kLargest] += w[top];
    want[kernels::kMisalignment] += std::abs(C(top) / C(keys) - C(i) / C(queries));
    want[kernels::kFirst] += w[0];
    want[kernels::kLast] += w[keys - 1];
    for (int64_t offset = -kLargestOffset; offset <= kLargestOffset; ++offset) {
      const int64_t j = i + diagonal + offset, place = kLargestOffset + offset;
      if (j < 0 || j >= keys) continue;
      want[kernels::kMass + place] += w[j];
      want[kernels::kTopKeys + place] += j == top;
    }
  }

  void columns(C* want) const {
    want[kernels::kTopColumnIndex] = -1;
    for (int64_t j = 0; j < keys; ++j) {
      C sum = 0;
      bool any = false;
      for (int64_t i = 0; i < queries; ++i) {
        sum += weights[i * keys + j];
        any = any || visible[i * keys + j];
      }
      want[kernels::kCoverage] += std::min(C(1), sum);
      if (!any || (want[kernels::kTopColumnIndex] >= 0 && sum <= want[kernels::kTopColumn]))
        continue;
      want[kernels::kTopColumn] = sum;
      want[kernels::kTopColumnIndex] = C(j);
    }
  }
};

template <typename T>
std::vector<Judge<T>> expected(const kernels::StatisticsParams<T>& p, int64_t b, int64_t h) {
  using C = Judge<T>;
  const Reference<C, T> reference(p);
  const kernels::Span queries = p.sequences.query(b), keys = p.sequences.key(b);
  Loops<C> loops;
  loops.queries = queries.length;
  loops.keys = keys.length;
  loops.diagonal = p.rule.align_end ? keys.length - queries.length : 0;
  const std::vector<C> weights = reference.forward(b, h).weights;  // of rows past the lengths too
  std::vector<C> norms(keys.length, 0);
  for (int64_t j = 0; j < keys.length; ++j) {
    for (int64_t d = 0; d < p.value_width; ++d) {
      const C x = p.value.at(b, h * p.value_heads / p.heads, keys.first + j, d);
      norms[j] += x * x;
    }
    norms[j] = std::sqrt(norms[j]);
  }
  for (int64_t n = 0; n < queries.length * keys.length; ++n) {
    const int64_t i = n / keys.length, j = n % keys.length;
    loops.visible.push_back(reference.visible(b, h, i, j));
    loops.weights.push_back(weights[i * keys.rows + j]);
  }
  std::vector<C> want(kernels::kStatisticsColumns, 0);
  loops.rows(want);
  for (int64_t version = 0; version < 2; ++version) {
    C* columns = want.data() + kernels::first_column(version);
    for (int64_t i = 0; i < loops.queries; ++i) {
      if (loops.seen(i) == 0) continue;
      C* w = loops.weights.data() + i * loops.keys;
      C sum = 0;
      for (int64_t j = 0; j < loops.keys && version == 1; ++j) {
        w[j] = w[j] == 0 ? C(0) : w[j] * norms[j];
        sum += w[j];
      }
      for (int64_t j = 0; j < loops.keys && version == 1 && sum > 0; ++j) w[j] /= sum;
      loops.row(i, columns);
    }
    loops.columns(columns);
  }
  return want;
}

/// Rounding of the log-sum-exp and of the products moves all weights of a row by this much.
template <typename T>
double relative_error(const kernels::StatisticsParams<T>& p) {
  double size = 0;
  for (int64_t b = 0; b < p.sequences.count; ++b) {
    const kernels::Span span = p.sequences.query(b);
    for (int64_t h = 0; h < p.heads; ++h) {
      for (int64_t i = 0; i < span.length; ++i) {
        const double lse = *p.lse.at(b, h, span.first + i);
        if (std::isfinite(lse)) size = std::max(size, std::abs(lse));
      }
    }
  }
  return 4 * std::numeric_limits<T>::epsilon() * (8 + size);
}

template <typename T>
void check_spec(const Spec& spec) {
  if (spec.beam != 0) return;
  SCOPED_TRACE(spec.name + (std::is_same_v<T, float> ? ", float" : ", double"));
  const Measured<T> measured(spec);
  const std::vector<std::string> names = kernels::statistics_names();
  const double relative = relative_error(measured.params);
  for (int64_t b = 0; b < spec.batch; ++b) {
    for (int64_t h = 0; h < spec.heads; ++h) {
      const auto want = expected(measured.params, b, h);
      for (int64_t column = 0; column < kernels::kStatisticsColumns; ++column) {
        const double judge = static_cast<double>(want[column]);
        const double rows = static_cast<double>(want[kernels::kRows]);
        EXPECT_NEAR(measured.at(b, h, column), judge, relative * (rows + std::abs(judge)))
            << names[column] << ", sequence " << b << ", head " << h;
      }
    }
  }
}

std::vector<Spec> longer_specs() {
  const Axes whole{true, true, true, true};
  return {
      {.name = "several tiles of keys", .batch = 1, .queries = 70, .keys = 300},
      {.name = "several blocks of rows",
       .batch = 1,
       .heads = 1,
       .kv_heads = 1,
       .queries = 300,
       .keys = 290,
       .causal = true,
       .dropout = 0.5},
      {.name = "masks over several tiles",
       .batch = 2,
       .queries = 260,
       .keys = 270,
       .packed = true,
       .left = 140,
       .mask = whole,
       .bias = whole,
       .layout = Layout::kStridedColumns},
  };
}

class StatisticsTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::cpu::use_instruction_set(GetParam()); }
  void TearDown() override { kernels::cpu::use_instruction_set(""); }
};

TEST_P(StatisticsTest, AgreeWithPlainLoops) {
  for (const auto& specs : {edge_specs(), longer_specs(), random_specs(60, 41)}) {
    for (const Spec& spec : specs) {
      check_spec<float>(spec);
      check_spec<double>(spec);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, StatisticsTest,
                         ::testing::ValuesIn(kernels::cpu::instruction_sets()),
                         [](const auto& name) { return name.param; });

TEST(Statistics, HaveANameForEveryColumn) {
  const std::vector<std::string> names = kernels::statistics_names();
  ASSERT_EQ(static_cast<int64_t>(names.size()), kernels::kStatisticsColumns);
  EXPECT_EQ(names[kernels::kRowsAt + kLargestOffset], "rows_at[0]");
  const int64_t norms = kernels::first_column(1);
  EXPECT_EQ(names[norms + kernels::kEntropy], "norm_entropy");
  EXPECT_EQ(names[norms + kernels::kTopColumnIndex], "norm_top_column_index");
  EXPECT_EQ(names[norms + kernels::kMass - 1 + kLargestOffset], "norm_mass[-1]");
  EXPECT_EQ(names.back(), "norm_top_key[8]");
}

TEST(Statistics, DoNotDependOnTheOrderOfItems) {
  for (const Spec& spec : random_specs(20, 42)) {
    EXPECT_EQ(Measured<float>(spec).statistics,
              Measured<float>(spec, Order::kBackwards).statistics);
  }
}

TEST(Statistics, NameTheKernelAndNeedNoScoreMatrix) {
  const auto bytes = [](int64_t length) {
    const Measured<float> measured({.batch = 1, .queries = length, .keys = length});
    const kernels::Plan plan = kernels::plan(measured.params);
    EXPECT_STREQ(plan.kernel, "cpu/tiles");
    EXPECT_STREQ(plan.instruction_set, kernels::cpu::instruction_set());
    EXPECT_EQ(plan.workspace_bytes, 0u);
    return plan.phases.at(0).scratch_bytes;
  };
  EXPECT_LE(bytes(1024) - bytes(512), 512u * 32);
}

TEST(Statistics, ShowVisibleNaN) {
  Measured<float> measured({.batch = 1, .heads = 1, .kv_heads = 1, .queries = 3, .keys = 200});
  const auto& query = measured.params.query;
  const_cast<float&>(query.at(0, 0, 1, 0)) = std::numeric_limits<float>::quiet_NaN();
  run_plan(measured.params);
  for (const int64_t version : {0, 1}) {
    for (const int64_t column : {kernels::kEntropy, kernels::kLargest, kernels::kDistance,
                                 kernels::kFirst, kernels::kTopColumn}) {
      EXPECT_TRUE(std::isnan(measured.at(0, 0, kernels::first_column(version) + column)));
    }
  }
  EXPECT_EQ(measured.at(0, 0, kernels::kRows), 3);
}

}  // namespace
}  // namespace headwise::testing
