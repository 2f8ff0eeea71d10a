// Compares what a kernel wrote with the judge, quantity by quantity.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "csrc/kernels/cpu/instruction_set.h"
#include "tests/kernels/attention_case.h"
#include "tests/kernels/error_rule.h"
#include "tests/kernels/reference.h"
#include "tests/kernels/run_plan.h"

namespace headwise::testing {

using ElementTypes = ::testing::Types<float, double, kernels::BFloat16, kernels::Half>;

template <typename T>
const char* type_name() {
  if constexpr (std::is_same_v<T, float>) return "float";
  if constexpr (std::is_same_v<T, double>) return "double";
  if constexpr (std::is_same_v<T, kernels::BFloat16>) return "BFloat16";
  if constexpr (std::is_same_v<T, kernels::Half>) return "Half";
}
struct TypeNames {
  template <typename T>
  static std::string GetName(int) {  // NOLINT(readability-identifier-naming): googletest's name
    return type_name<T>();
  }
};

/// Precision that judges T.
template <typename T>
using Judge = std::conditional_t<std::is_same_v<T, double>, long double, double>;

/// Chooses an instruction set for the life of the object.
class WithInstructionSet {
 public:
  explicit WithInstructionSet(const std::string& name) {
    kernels::cpu::use_instruction_set(name);
    EXPECT_EQ(kernels::cpu::instruction_set(), name);
  }
  ~WithInstructionSet() { kernels::cpu::use_instruction_set(""); }
  WithInstructionSet(const WithInstructionSet&) = delete;
  WithInstructionSet& operator=(const WithInstructionSet&) = delete;
};

/// All results of a problem in precision C. Gradients of keys and values are summed over a group,
/// those of scores over the axes that the bias broadcasts.
template <typename C>
struct Expected {
  std::vector<std::vector<C>> output, lse, scores, weights, query;  // by b * H + h
  std::vector<std::vector<C>> key, value;                           // by b * G + g
  std::vector<C> bias, bias_terms;                                  // sums, and sums of magnitudes

  Expected() = default;
  template <typename T>
  Expected(const kernels::BackwardParams<T>& p, size_t bias_span, bool forward_only)
      : key(p.sequences.count * p.kv_heads),
        value(p.sequences.count * p.kv_heads),
        bias(bias_span, 0),
        bias_terms(bias_span, 0) {
    const Reference<C, T> reference(p);
    for (int64_t b = 0; b < p.sequences.count; ++b) {
      for (int64_t h = 0; h < p.heads; ++h) {
        HeadResult<C> head = forward_only ? reference.forward(b, h) : reference.backward(p, b, h);
        output.push_back(std::move(head.output));
        lse.push_back(std::move(head.lse));
        scores.push_back(std::move(head.scores));
        weights.push_back(std::move(head.weights));
        query.push_back(std::move(head.query));
        add(head.key, key[b * p.kv_heads + p.group_of(h)]);
        add(head.value, value[b * p.kv_heads + p.group_of(h)]);
        const int64_t keys = p.sequences.key(b).rows;
        for (size_t n = 0; bias_span > 0 && n < head.score.size(); ++n) {
          const auto* place = &p.bias_gradient.at(b, h, int64_t(n) / keys, int64_t(n) % keys);
          bias[place - p.bias_gradient.data] += head.score[n];
          bias_terms[place - p.bias_gradient.data] += std::abs(head.score[n]);
        }
      }
    }
  }

 private:
  static void add(const std::vector<C>& from, std::vector<C>& to) {
    to.resize(from.size(), 0);
    for (size_t n = 0; n < from.size(); ++n) to[n] += from[n];
  }
};

/// A problem with its expected results, so that several instruction sets can be judged by them.
template <typename T>
class JudgedCase {
 public:
  explicit JudgedCase(const Spec& spec)
      : case_(spec), forward_only_(spec.beam != 0), poisoned_(spec.poison != Poison::kNone) {
    case_.forward();
    const auto params = case_.backward();
    want_ = Expected<Judge<T>>(params, case_.bias_span(), forward_only_);
    rough_ = Expected<kernels::Compute<T>>(params, case_.bias_span(), forward_only_);
  }

  /// Runs forward and, where there is one, weights and backward.
  void check(RunError& run) {
    const auto forward = case_.forward();
    run_plan(forward);
    check_queries("output", forward.output, forward.value_width, want_.output, rough_.output, run);
    check_queries("lse", forward.lse, 1, want_.lse, rough_.lse, run);
    if (!forward_only_) {
      const auto weights = case_.weights();
      run_plan(weights);
      check_weights(weights, run);
      const auto backward = case_.backward();
      run_plan(backward);
      check_queries("dQ", backward.query_gradient, backward.width, want_.query, rough_.query, run);
      check_keys("dK", backward.key_gradient, backward.width, want_.key, rough_.key, run);
      check_keys("dV", backward.value_gradient, backward.value_width, want_.value, rough_.value,
                 run);
      check_bias(backward, run);
    }
    EXPECT_TRUE(case_.guards_hold());
  }

 private:
  using C = kernels::Compute<T>;
  template <typename U>
  using Lists = std::vector<std::vector<U>>;

  template <typename U>
  CaseError error(const char* what) const {
    return CaseError(what, kEpsilon<U>, poisoned_);
  }

  // x as a result of type U holds it.
  template <typename U>
  static long double as_result(C x) {
    return kernels::to_compute(kernels::from_compute<U>(static_cast<kernels::Compute<U>>(x)));
  }

  template <typename U>
  static void compare(CaseError& error, const U* actual, int64_t width, const Judge<T>* want,
                      const C* rough) {
    for (int64_t d = 0; d < width; ++d) {
      error.add(kernels::to_compute(actual[d]), want[d], as_result<U>(rough[d]));
    }
  }

  // Rows that do not exist hold 0, or -inf in the log-sum-exp: the judge says so too.
  template <typename U>
  void check_queries(const char* what, const kernels::View<U>& actual, int64_t width,
                     const Lists<Judge<T>>& want, const Lists<C>& rough, RunError& run) const {
    CaseError all = error<U>(what);
    const auto& in = case_.inputs();
    for (int64_t n = 0; n < int64_t(want.size()); ++n) {
      const int64_t b = n / in.heads, h = n % in.heads;
      const kernels::Span span = in.sequences.query(b);
      for (int64_t i = 0; i < span.rows; ++i) {
        compare(all, actual.at(b, h, span.first + i), width, want[n].data() + i * width,
                rough[n].data() + i * width);
      }
    }
    run.add(all);
  }

  void check_keys(const char* what, const kernels::View<T>& actual, int64_t width,
                  const Lists<Judge<T>>& want, const Lists<C>& rough, RunError& run) const {
    CaseError all = error<T>(what);
    const auto& in = case_.inputs();
    for (int64_t n = 0; n < int64_t(want.size()); ++n) {
      const int64_t b = n / in.kv_heads, g = n % in.kv_heads;
      const kernels::Span span = in.sequences.key(b);
      for (int64_t j = 0; j < span.rows; ++j) {
        compare(all, actual.at(b, g, span.first + j), width, want[n].data() + j * width,
                rough[n].data() + j * width);
      }
    }
    run.add(all);
  }

  void check_bias(const kernels::BackwardParams<T>& p, RunError& run) const {
    CaseError all = error<C>("dBias");
    for (size_t n = 0; n < want_.bias.size(); ++n) {
      if (!case_.bias_has(n)) continue;
      all.add(p.bias_gradient.data[n], want_.bias[n], rough_.bias[n],
              static_cast<double>(want_.bias_terms[n]));
    }
    run.add(all);
  }

  // The plain formula is the exponential of score - log-sum-exp.
  void check_weights(const kernels::WeightsParams<T>& p, RunError& run) const {
    CaseError all = error<T>("weights");
    const Reference<double, T> reference(p);
    int64_t wrong = 0;
    for (int64_t n = 0; n < int64_t(want_.weights.size()); ++n) {
      const int64_t b = n / p.heads, h = n % p.heads, keys = p.sequences.key(b).rows;
      for (int64_t i = 0; i < p.sequences.query_rows; ++i) {
        for (int64_t j = 0; j < p.sequences.key_rows; ++j) {
          const T actual = p.weights.at(b, h, i, j);
          if (reference.visible(b, h, i, j)) {
            const size_t place = i * keys + j;
            const C rough = std::exp(rough_.scores[n][place] - rough_.lse[n][i]);
            compare(all, &actual, 1, &want_.weights[n][place], &rough);
          } else {
            wrong += kernels::to_compute(actual) != 0;
          }
        }
      }
    }
    EXPECT_EQ(wrong, 0) << "weights of hidden keys are not 0";
    run.add(all);
  }

  Case<T> case_;
  const bool forward_only_, poisoned_;
  Expected<Judge<T>> want_;
  Expected<C> rough_;
};

/// Judges every problem with every instruction set of this build and machine.
template <typename T>
std::vector<RunError> check_specs(const std::vector<Spec>& specs) {
  const std::vector<std::string> sets = kernels::cpu::instruction_sets();
  std::vector<RunError> runs(sets.size());
  for (const Spec& spec : specs) {
    JudgedCase<T> judged(spec);
    for (size_t n = 0; n < sets.size(); ++n) {
      SCOPED_TRACE(spec.name + ", " + type_name<T>() + ", " + sets[n]);
      const WithInstructionSet set(sets[n]);
      judged.check(runs[n]);
    }
  }
  for (size_t n = 0; n < sets.size(); ++n) runs[n].check(type_name<T>() + (' ' + sets[n]));
  return runs;
}

}  // namespace headwise::testing
