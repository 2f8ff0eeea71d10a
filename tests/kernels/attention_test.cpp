// Forward, backward and weights against the plain loops of reference.h, over every instruction set
// of this CPU.
#include <gtest/gtest.h>

#include <type_traits>

#include "csrc/kernels/attention/cpu/instruction_set.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/error_rule.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/run_plan.h"

namespace headwise::testing {
namespace {

constexpr double kUnwritten = 12345.0;
constexpr uint64_t kRandomSeed = 20261130;

template <typename T>
using Judge = std::conditional_t<std::is_same_v<T, float>, double, long double>;

/// Numbers in the rows of no sequence stay as they were.
template <typename T>
void expect_untouched(const kernels::View<T>& view, int64_t heads, int64_t width, int64_t begin,
                      int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t d = 0; d < width; ++d) ASSERT_EQ(view.at(0, h, i, d), T(kUnwritten));
    }
  }
}

template <typename T>
void check_forward(const kernels::ForwardParams<T>& p, RunError<T>& run) {
  CaseError<T> output("output"), lse("lse");
  const Reference<Judge<T>, T> judge(p);
  const Reference<T, T> plain(p);
  for (int64_t b = 0; b < p.sequences.count; ++b) {
    const kernels::Span span = p.sequences.query(b);
    for (int64_t h = 0; h < p.heads; ++h) {
      const auto want = judge.forward(b, h);
      const auto rough = plain.forward(b, h);
      for (int64_t i = 0; i < span.rows; ++i) {
        const bool exists = i < span.length;
        lse.add(*p.lse.at(b, h, span.first + i),
                exists ? want.lse[i] : -std::numeric_limits<Judge<T>>::infinity(),
                exists ? rough.lse[i] : T{0});
        for (int64_t d = 0; d < p.value_width; ++d) {
          const int64_t n = i * p.value_width + d;
          output.add(p.output.at(b, h, span.first + i, d), exists ? want.output[n] : Judge<T>{0},
                     exists ? rough.output[n] : T{0});
        }
      }
    }
  }
  run.add(output);
  run.add(lse);
  if (p.sequences.query_starts != nullptr) {
    expect_untouched(p.output, p.heads, p.value_width, 0, p.sequences.query_starts[0]);
    const int64_t end = p.sequences.query_starts[p.sequences.count];
    expect_untouched(p.output, p.heads, p.value_width, end, end + 1);
  }
}

/// Sums of the heads' gradients over a group, and of the scores' over the axes the bias broadcasts.
template <typename C, typename T>
struct Totals {
  std::vector<std::vector<C>> query, key, value;  // by b * heads + head
  std::vector<C> bias, bias_terms;                // sums, and sums of the terms' magnitudes

  Totals(const kernels::BackwardParams<T>& p, size_t bias_size)
      : bias(bias_size, 0), bias_terms(bias_size, 0) {
    const Reference<C, T> reference(p);
    key.resize(p.sequences.count * p.kv_heads);
    value.resize(p.sequences.count * p.kv_heads);
    for (int64_t b = 0; b < p.sequences.count; ++b) {
      for (int64_t h = 0; h < p.heads; ++h) {
        const auto head = reference.backward(p, b, h);
        query.push_back(head.query);
        add(head.key, key[b * p.kv_heads + p.group_of(h)]);
        add(head.value, value[b * p.kv_heads + p.group_of(h)]);
        const int64_t keys = p.sequences.key(b).rows;
        for (size_t n = 0; p.bias_gradient.data != nullptr && n < head.score.size(); ++n) {
          const T* place = &p.bias_gradient.at(b, h, int64_t(n) / keys, int64_t(n) % keys);
          bias[place - p.bias_gradient.data] += head.score[n];
          bias_terms[place - p.bias_gradient.data] += std::abs(head.score[n]);
        }
      }
    }
  }

  static void add(const std::vector<C>& from, std::vector<C>& to) {
    to.resize(from.size(), 0);
    for (size_t n = 0; n < from.size(); ++n) to[n] += from[n];
  }
};

template <typename T>
void check_rows(CaseError<T>& error, const kernels::View<T>& actual, int64_t b, int64_t h,
                const kernels::Span& span, int64_t width, const std::vector<Judge<T>>& want,
                const std::vector<T>& rough) {
  for (int64_t i = 0; i < span.rows; ++i) {
    for (int64_t d = 0; d < width; ++d) {
      const size_t n = i * width + d;
      const bool exists = n < want.size();
      error.add(actual.at(b, h, span.first + i, d), exists ? want[n] : Judge<T>{0},
                exists ? rough[n] : T{0});
    }
  }
}

template <typename T>
void check_backward(const kernels::BackwardParams<T>& p, size_t bias_size, RunError<T>& run) {
  const Totals<Judge<T>, T> want(p, bias_size);
  const Totals<T, T> rough(p, bias_size);
  CaseError<T> query("query gradient"), key("key gradient"), value("value gradient"),
      bias("bias gradient");
  for (int64_t b = 0; b < p.sequences.count; ++b) {
    for (int64_t h = 0; h < p.heads; ++h) {
      const int64_t n = b * p.heads + h;
      check_rows(query, p.query_gradient, b, h, p.sequences.query(b), p.width, want.query[n],
                 rough.query[n]);
    }
    for (int64_t g = 0; g < p.kv_heads; ++g) {
      const int64_t n = b * p.kv_heads + g;
      check_rows(key, p.key_gradient, b, g, p.sequences.key(b), p.width, want.key[n], rough.key[n]);
      check_rows(value, p.value_gradient, b, g, p.sequences.key(b), p.value_width, want.value[n],
                 rough.value[n]);
    }
  }
  for (size_t n = 0; n < bias_size; ++n) {
    bias.add(p.bias_gradient.data[n], want.bias[n], rough.bias[n], double(want.bias_terms[n]));
  }
  for (const CaseError<T>* error : {&query, &key, &value, &bias}) run.add(*error);
}

template <typename T>
void check_weights(const kernels::WeightsParams<T>& p, RunError<T>& run) {
  CaseError<T> weights("weights");
  const Reference<Judge<T>, T> judge(p);
  const Reference<T, T> plain(p);
  for (int64_t b = 0; b < p.sequences.count; ++b) {
    const int64_t queries = p.sequences.query(b).rows, keys = p.sequences.key(b).rows;
    for (int64_t h = 0; h < p.heads; ++h) {
      const auto want = judge.forward(b, h);
      const auto rough = plain.forward(b, h);
      for (int64_t i = 0; i < p.sequences.query_rows; ++i) {
        for (int64_t j = 0; j < p.sequences.key_rows; ++j) {
          const bool exists = i < queries && j < keys;
          const T actual = p.weights.at(b, h, i, j);
          if (!exists || want.weights[i * keys + j] == 0) {
            ASSERT_TRUE(actual == 0) << "weight of a hidden key is " << actual;
          } else {
            weights.add(actual, want.weights[i * keys + j], rough.weights[i * keys + j]);
          }
        }
      }
    }
  }
  run.add(weights);
}

template <typename T>
void check_spec(const Spec& spec, RunError<T>& run) {
  SCOPED_TRACE(spec.name + (std::is_same_v<T, float> ? ", float" : ", double"));
  Case<T> problem(spec);
  const auto forward = problem.forward();
  run_plan(forward);
  check_forward(forward, run);
  if (spec.beam != 0) return;  // decoding has no backward
  const auto weights = problem.weights();
  run_plan(weights);
  check_weights(weights, run);
  const auto backward = problem.backward();
  run_plan(backward);
  check_backward(backward, problem.bias_size(), run);
}

/// Runs once for each instruction set that was compiled and that this CPU has.
class AttentionTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    kernels::cpu::use_instruction_set(GetParam());
    ASSERT_EQ(kernels::cpu::instruction_set(), GetParam());
  }
  void TearDown() override { kernels::cpu::use_instruction_set(""); }
};

void check_specs(const std::vector<Spec>& specs) {
  RunError<float> floats;
  RunError<double> doubles;
  for (const Spec& spec : specs) {
    check_spec(spec, floats);
    check_spec(spec, doubles);
  }
  floats.check();
  doubles.check();
}

TEST_P(AttentionTest, AgreesWithTheReferenceAtTheEdges) { check_specs(edge_specs()); }

TEST_P(AttentionTest, AgreesWithTheReferenceForRandomCombinations) {
  check_specs(random_specs(60, kRandomSeed));
}

INSTANTIATE_TEST_SUITE_P(EveryInstructionSet, AttentionTest,
                         ::testing::ValuesIn(kernels::cpu::instruction_sets()),
                         [](const auto& name) { return name.param; });

// Bits must not depend on the order of the items, on what the scratch held or on a second run.
TEST(AttentionOrder, LeavesEveryBitAlone) {
  for (const Spec& spec : random_specs(40, kRandomSeed + 1)) {
    SCOPED_TRACE(spec.name);
    Case<float> one(spec), two(spec);
    run_plan(one.forward());
    run_plan(two.forward(), Order::kBackwards);
    run_plan(one.backward());
    run_plan(two.backward(), Order::kBackwards);
    ASSERT_TRUE(one.same_results(two));
  }
}

TEST(AttentionPlan, NamesTheKernelAndNeedsNoScoreMatrix) {
  const auto bytes = [](int64_t length) {
    Case<float> problem({.batch = 1, .heads = 1, .kv_heads = 1, .queries = length, .keys = length});
    const auto forward = kernels::plan(problem.forward());
    const auto backward = kernels::plan(problem.backward());
    EXPECT_STREQ(forward.kernel, "cpu/tiles");
    EXPECT_STREQ(forward.instruction_set, kernels::cpu::instruction_set());
    EXPECT_EQ(forward.workspace_bytes + backward.workspace_bytes, 0u);
    return std::pair(forward.phases[0].scratch_bytes, backward.phases[0].scratch_bytes);
  };
  EXPECT_EQ(bytes(4000), bytes(500));  // tiles and blocks, however long the sequence
}

// The threshold itself is kept, one below it is not.
TEST(AttentionDropout, CutsExactlyAtTheThreshold) {
  Case<double> problem({.batch = 1, .heads = 1, .kv_heads = 1, .queries = 1, .keys = 1});
  auto params = problem.forward();
  params.dropout = {99, 3, 0};
  const uint32_t half = reference_philox({0, 0, 0, 3}, {99, 0})[0] % 65536;
  const auto first = [&](uint32_t threshold) {
    params.dropout.threshold = threshold;
    run_plan(params);
    return params.output.at(0, 0, 0, 0);
  };
  const double whole = first(0);
  EXPECT_DOUBLE_EQ(first(half), whole * 65536 / (65536 - half));
  EXPECT_EQ(first(half + 1), 0.0);
}

// NaN and infinity among the visible numbers must show, not vanish in exp.
TEST(AttentionNaN, ShowsWhenItIsVisible) {
  Case<float> problem({.batch = 1, .heads = 1, .kv_heads = 1, .queries = 2, .keys = 20});
  auto params = problem.forward();
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    const_cast<float&>(params.query.at(0, 0, 1, 3)) = bad;
    run_plan(params);
    EXPECT_TRUE(std::isfinite(params.output.at(0, 0, 0, 0)));
    EXPECT_TRUE(std::isnan(params.output.at(0, 0, 1, 0)));
  }
}

}  // namespace
}  // namespace headwise::testing
