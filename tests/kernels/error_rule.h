// How far off a kernel may be, against a more precise judge: at most twice as far as the plain
// formula in the kernel's own precision, plus two units in the last place of the largest number;
// for the largest and for the root-mean-square error. A single small case has too few numbers for
// the factor 2 (two draws of rounding noise differ by more), so a case by itself is held to 4, and
// all cases of a run together to 2.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <string>

namespace headwise::testing {

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

template <typename T>
void expect_within(const ErrorSize& error, const ErrorSize& plain, double factor, double unit,
                   const std::string& what) {
  const double floor = 2.0 * std::numeric_limits<T>::epsilon() * unit;
  EXPECT_LE(error.largest(), factor * plain.largest() + floor) << "largest error of " << what;
  EXPECT_LE(error.rms(), factor * plain.rms() + floor) << "root-mean-square error of " << what;
}

/// One quantity of one case.
template <typename T>
class CaseError {
 public:
  explicit CaseError(std::string what) : what_(std::move(what)) {}

  /// magnitude: of the largest number, or of what was summed where a sum may cancel.
  template <typename Judge>
  void add(T actual, Judge judge, T plain, double magnitude = 0.0) {
    if (std::isinf(judge)) {
      EXPECT_EQ(actual, static_cast<T>(judge)) << what_;
      return;
    }
    ASSERT_TRUE(std::isfinite(actual)) << what_ << " is " << actual << ", not " << judge;
    unit_ = std::max({unit_, std::abs(static_cast<double>(judge)), magnitude});
    error_.add(static_cast<double>(actual - judge));
    plain_.add(static_cast<double>(plain - judge));
  }

  void check() const { expect_within<T>(error_, plain_, 4.0, unit_, what_); }

  const std::string& what() const { return what_; }
  const ErrorSize& error() const { return error_; }
  const ErrorSize& plain() const { return plain_; }
  double unit() const { return unit_; }

 private:
  std::string what_;
  ErrorSize error_, plain_;
  double unit_ = 0.0;
};

/// All cases of a run, each measured in units of its largest number.
template <typename T>
class RunError {
 public:
  void add(const CaseError<T>& one) {
    one.check();
    if (one.unit() == 0.0) return;
    auto& [error, plain] = sizes_[one.what()];
    error.add(one.error(), one.unit());
    plain.add(one.plain(), one.unit());
  }

  void check() const {
    for (const auto& [what, sizes] : sizes_) {
      const auto& [error, plain] = sizes;
      std::printf("%-8s %-15s error / plain formula's: largest %.2f, root mean square %.2f\n",
                  sizeof(T) == 4 ? "float" : "double", what.c_str(),
                  error.largest() / plain.largest(), error.rms() / plain.rms());
      expect_within<T>(error, plain, 2.0, 1.0, what);
    }
  }

 private:
  std::map<std::string, std::pair<ErrorSize, ErrorSize>> sizes_;
};

}  // namespace headwise::testing
