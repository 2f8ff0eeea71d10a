// The fused loss against torch's cross-entropy on whole scores.
#include "csrc/ops/linear_cross_entropy.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

namespace headwise {
namespace {

struct Case {
  int64_t rows, pieces;
  double smoothing;
};

class LossOf : public ::testing::TestWithParam<Case> {};

TEST_P(LossOf, EqualsTorchsInValueAndGradient) {
  const auto [rows, pieces, smoothing] = GetParam();
  at::manual_seed(1);
  const auto leaf = [](const at::Tensor& t) { return t.clone().requires_grad_(); };
  const at::Tensor hidden = at::randn({rows, 6}, at::kDouble) * 3;
  const at::Tensor weight = at::randn({pieces, 6}, at::kDouble);
  const at::Tensor labels = at::randint(pieces, {rows}, at::kLong);

  const at::Tensor hidden_a = leaf(hidden), weight_a = leaf(weight);
  const LinearCrossEntropyResult loss =
      linear_cross_entropy(hidden_a, weight_a, labels, {.label_smoothing = smoothing});
  (loss.loss * 0.25).backward();

  const at::Tensor hidden_b = leaf(hidden), weight_b = leaf(weight);
  const at::Tensor scores = at::linear(hidden_b, weight_b);
  const auto sum = at::Reduction::Sum;
  const at::Tensor expected = at::cross_entropy_loss(scores, labels, {}, sum, -100, smoothing);
  const at::Tensor nll = at::cross_entropy_loss(scores, labels, {}, sum, -100, 0.0);
  (expected * 0.25).backward();

  EXPECT_NEAR(loss.loss.item<double>(), expected.item<double>(), 1e-9 * double(rows + 1));
  EXPECT_NEAR(loss.nll.item<double>(), nll.item<double>(), 1e-9 * double(rows + 1));
  EXPECT_TRUE(at::allclose(hidden_a.grad(), hidden_b.grad(), 1e-9, 1e-11));
  EXPECT_TRUE(at::allclose(weight_a.grad(), weight_b.grad(), 1e-9, 1e-11));
}

// Around the chunk size too, and one row, and none.
INSTANTIATE_TEST_SUITE_P(Ops, LossOf,
                         ::testing::Values(Case{1, 5, 0.0}, Case{7, 5, 0.4}, Case{255, 9, 0.1},
                                           Case{256, 9, 0.1}, Case{257, 9, 0.0}, Case{600, 33, 0.2},
                                           Case{0, 5, 0.1}));

TEST(Loss, SurvivesHugeScores) {
  const at::Tensor hidden = at::tensor({3e4, -3e4}, at::kFloat).view({2, 1}).requires_grad_();
  const at::Tensor weight = at::tensor({1.0, -1.0, 0.5}, at::kFloat).view({3, 1});
  const LinearCrossEntropyResult loss =
      linear_cross_entropy(hidden, weight, at::tensor({0, 1}, at::kLong));
  EXPECT_NEAR(loss.nll.item<double>(), 0.0, 1e-6);
  loss.loss.backward();
  EXPECT_TRUE(at::isfinite(hidden.grad()).all().item<bool>());
}

TEST(Loss, WithoutGradientsItIsTheSameNumber) {
  const at::Tensor hidden = at::randn({300, 4}), weight = at::randn({10, 4}).requires_grad_();
  const at::Tensor labels = at::randint(10, {300}, at::kLong);
  const double with =
      linear_cross_entropy(hidden, weight, labels, {.label_smoothing = 0.1}).loss.item<double>();
  at::NoGradGuard no_grad;
  const double without =
      linear_cross_entropy(hidden, weight, labels, {.label_smoothing = 0.1}).loss.item<double>();
  EXPECT_EQ(with, without);
}

}  // namespace
}  // namespace headwise
