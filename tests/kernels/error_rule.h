// How far off a kernel may be, against a more precise judge: at most twice as far as the plain
// formula in the kernel's own precision, plus two units in the last place of the largest number;
// for the largest and for the root-mean-square error. A single case has too few numbers for the
// factor 2 (two draws of rounding noise differ by more), so all cases of a run together are held to
// it, and a case by itself to 4, or 6 for its largest error (4.6 was seen, in float gradients).
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "csrc/kernels/element.h"

namespace headwise::testing {

/// Distance from 1 to the next number of a type.
template <typename T>
constexpr double kEpsilon = std::numeric_limits<T>::epsilon();
template <>
inline constexpr double kEpsilon<kernels::BFloat16> = 0x1p-7;
template <>
inline constexpr double kEpsilon<kernels::Half> = 0x1p-10;

/// Largest and root-mean-square of some errors.
class ErrorSize {
 public:
  void add(double error) {
    largest_ = std::max(largest_, std::abs(error));
    squares_ += error * error;
    ++count_;
  }
  void add(const ErrorSize& other, double unit) {
    largest_ = std::max(largest_, other.largest_ / unit);
    squares_ += other.squares_ / (unit * unit);
    count_ += other.count_;
  }
  double largest() const { return largest_; }
  double rms() const { return count_ == 0 ? 0.0 : std::sqrt(squares_ / count_); }

 private:
  double largest_ = 0, squares_ = 0, count_ = 0;
};

struct Factors {
  double largest, rms;
};
/// floor: two units in the last place.
inline void expect_within(const ErrorSize& error, const ErrorSize& plain, Factors factors,
                          double floor, const std::string& what) {
  EXPECT_LE(error.largest(), factors.largest * plain.largest() + floor)
      << "largest error, " << what;
  EXPECT_LE(error.rms(), factors.rms * plain.rms() + floor) << "root-mean-square error, " << what;
}

/// Numbers of one quantity against the exact ones and the plain formula's.
template <typename A, typename B, typename P>
void expect_as_exact(const std::vector<A>& ours, const std::vector<B>& exact,
                     const std::vector<P>& plain, const std::string& what, double epsilon) {
  ErrorSize error, plain_error;
  double largest = 4;  // of the terms: a difference of them may be 0
  for (size_t i = 0; i < ours.size(); ++i) {
    ASSERT_FALSE(std::isnan(static_cast<double>(ours[i]))) << what << " " << i;
    error.add(static_cast<double>(ours[i]) - static_cast<double>(exact[i]));
    plain_error.add(static_cast<double>(plain[i]) - static_cast<double>(exact[i]));
    largest = std::max(largest, std::abs(static_cast<double>(exact[i])));
  }
  expect_within(error, plain_error, {4, 2}, 2 * epsilon * largest, what);
}

/// One quantity of one case. epsilon: of the type the result has. A poisoned case may expect NaN,
/// which is not compared.
class CaseError {
 public:
  CaseError(std::string what, double epsilon, bool poisoned)
      : what_(std::move(what)), epsilon_(epsilon), poisoned_(poisoned) {}

  /// magnitude: of what was summed, where a sum may cancel.
  void add(long double actual, long double judge, long double plain, double magnitude = 0.0) {
    if (judge == -std::numeric_limits<long double>::infinity() && !poisoned_) {
      EXPECT_EQ(actual, judge) << what_;
      return;
    }
    if (poisoned_ && !(std::isfinite(judge) && std::isfinite(plain))) {
      ++poisoned_count_;
      return;
    }
    if (!std::isfinite(actual) || !std::isfinite(judge)) {
      if (!failed_) ADD_FAILURE() << what_ << " is " << actual << ", not " << judge;
      failed_ = true;  // once is enough
      return;
    }
    ++count_;
    unit_ = std::max({unit_, static_cast<double>(std::abs(judge)), magnitude});
    error_.add(static_cast<double>(actual - judge));
    plain_.add(static_cast<double>(plain - judge));
  }

  /// Where all of the judge's numbers are 0 they have no size; inputs and gradients are about 1.
  void check() const {
    if (count_ < kFewest) return;
    const double unit = unit_ == 0.0 ? 1.0 : unit_;
    expect_within(error_, plain_, {6.0, 4.0}, 2.0 * epsilon_ * unit, what_);
  }

  const std::string& what() const { return what_; }
  double epsilon() const { return epsilon_; }
  const ErrorSize& error() const { return error_; }
  const ErrorSize& plain() const { return plain_; }
  double unit() const { return unit_; }
  /// Numbers that were compared, and those that hold NaN rightly.
  int64_t count() const { return count_; }
  int64_t poisoned_count() const { return poisoned_count_; }

 private:
  static constexpr int64_t kFewest = 4;  // of these even these factors say nothing

  std::string what_;
  double epsilon_;
  bool poisoned_, failed_ = false;
  ErrorSize error_, plain_;
  double unit_ = 0.0;
  int64_t count_ = 0, poisoned_count_ = 0;
};

/// All cases of a run, each measured in units of its largest number.
class RunError {
 public:
  void add(const CaseError& one) {
    one.check();
    Sum& sum = sums_[one.what()];
    sum.count += one.count();
    sum.poisoned_count += one.poisoned_count();
    sum.epsilon = one.epsilon();
    if (one.unit() == 0.0) return;
    sum.error.add(one.error(), one.unit());
    sum.plain.add(one.plain(), one.unit());
  }

  /// Prints the ratios, so that drift shows: largest and root-mean-square error of each quantity,
  /// divided by the plain formula's.
  void check(const std::string& name) const {
    std::printf("%-13s", name.c_str());
    for (const auto& [what, sum] : sums_) {
      std::printf("  %s %.2f %.2f", what.c_str(), sum.error.largest() / sum.plain.largest(),
                  sum.error.rms() / sum.plain.rms());
    }
    std::printf("\n");
    for (const auto& [what, sum] : sums_) {
      expect_within(sum.error, sum.plain, {2.0, 2.0}, 2.0 * sum.epsilon,
                    std::string(name).append(" ").append(what));
    }
  }

  /// Numbers of a quantity that were compared, and those that hold NaN rightly.
  int64_t count(const std::string& what) const { return sums_.at(what).count; }
  int64_t poisoned_count(const std::string& what) const { return sums_.at(what).poisoned_count; }

 private:
  struct Sum {
    ErrorSize error, plain;
    double epsilon = 0.0;
    int64_t count = 0, poisoned_count = 0;
  };
  std::map<std::string, Sum> sums_;
};

}  // namespace headwise::testing
