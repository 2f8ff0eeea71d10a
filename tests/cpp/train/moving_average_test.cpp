// The exponential moving average against its recurrence in double.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "src/train/optimizer.h"

namespace headwise::train {
namespace {

io::Tensors one_parameter(double value) { return {{"p", at::full({3}, value).requires_grad_()}}; }

void set(const io::Tensors& parameters, double value) {
  at::NoGradGuard no_grad;
  at::Tensor(parameters.at("p")).fill_(value);
}

TEST(MovingAverage, FollowsTheRecurrence) {
  const io::Tensors parameters = one_parameter(2);
  MovingAverage average(parameters, 0.6);
  double expected = 2;
  for (int step = 1; step <= 30; ++step) {
    const double value = step % 3 - 0.25 * step;
    set(parameters, value);
    average.update(step);
    const double decay = std::min(0.6, (1.0 + step) / (10.0 + step));
    expected = decay * expected + (1 - decay) * value;
    EXPECT_NEAR(average.averages().at("p")[1].item<double>(), expected, 1e-5) << "step " << step;
  }
}

TEST(MovingAverage, SwappingTwiceIsTheIdentityBitForBit) {
  const io::Tensors parameters = {{"p", at::rand({100}).requires_grad_()}};
  MovingAverage average(parameters, 0.9);
  {
    at::NoGradGuard no_grad;
    at::Tensor(parameters.at("p")).add_(0.3);
  }
  average.update(1);
  const at::Tensor trained = parameters.at("p").detach().clone();
  const at::Tensor averaged = average.averages().at("p").clone();
  average.swap();
  EXPECT_TRUE(at::equal(parameters.at("p"), averaged));
  EXPECT_TRUE(at::equal(average.averages().at("p"), trained));
  average.swap();
  EXPECT_TRUE(at::equal(parameters.at("p"), trained));
  EXPECT_TRUE(at::equal(average.averages().at("p"), averaged));
}

TEST(AveragedScope, LetsAveragesStandInAndGivesBackWhenThrownOutOf) {
  const io::Tensors parameters = one_parameter(1);
  MovingAverage average(parameters, 0.5);
  set(parameters, 5);
  try {
    const AveragedScope scope(&average);
    EXPECT_EQ(parameters.at("p")[0].item<double>(), 1);
    throw 0;
  } catch (int) {
  }
  EXPECT_EQ(parameters.at("p")[0].item<double>(), 5);
}

TEST(AveragedScope, WithoutAnAverageDoesNothing) { const AveragedScope scope(nullptr); }

}  // namespace
}  // namespace headwise::train
