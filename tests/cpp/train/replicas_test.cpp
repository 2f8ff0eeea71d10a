#include "src/train/replicas.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "src/io/model_io.h"
#include "src/train/optimizer.h"
#include "tests/cpp/model/support.h"

namespace headwise::train {
namespace {

class ReplicasTest : public ::testing::Test {
 protected:
  at::Tensor weight(int64_t i) { return replicas[i]->parameters().front(); }
  void set_gradient(int64_t i, double value) {
    weight(i).mutable_grad() = at::full_like(weight(i).detach(), value);
  }

  model::Transformer model{model::testing::small_config(), 20, 20};
  Optimizer optimizer{io::parameters_of(*model), {}};
  Replicas replicas{model, 3};
};

TEST_F(ReplicasTest, ShareWeightsAndNothingElse) {
  ASSERT_EQ(replicas.count(), 3);
  const auto first = model->named_parameters();
  for (int64_t i = 1; i < 3; ++i) {
    const auto other = replicas[i]->named_parameters();
    ASSERT_EQ(other.size(), first.size());
    for (const auto& item : first) {
      EXPECT_EQ(other[item.key()].data_ptr(), item.value().data_ptr()) << item.key();
      EXPECT_FALSE(other[item.key()].grad().defined()) << item.key();
    }
  }
}

TEST_F(ReplicasTest, AnUpdateOfTheFirstIsSeenByAll) {
  weight(0).mutable_grad().fill_(1);
  optimizer.update(0.1, 1);
  EXPECT_TRUE(at::equal(weight(0), weight(2)));
}

TEST_F(ReplicasTest, GradientsAreSummedIntoTheFirst) {
  for (int64_t i = 0; i < 3; ++i) set_gradient(i, double(i + 1));
  replicas.sum_gradients();
  EXPECT_TRUE(at::equal(weight(0).grad(), at::full_like(weight(0), 6)));
}

TEST_F(ReplicasTest, WhatOneLacksTheOthersGive) {
  replicas.forget_gradients();
  set_gradient(2, 5);
  replicas.sum_gradients();
  EXPECT_TRUE(at::equal(weight(0).grad(), at::full_like(weight(0), 5)));
  EXPECT_FALSE(replicas[0]->parameters().back().grad().any().item<bool>());
}

TEST_F(ReplicasTest, ForgettingTakesNaNAlong) {
  for (int64_t i = 0; i < 3; ++i) set_gradient(i, std::nan(""));
  replicas.forget_gradients();
  replicas.sum_gradients();
  EXPECT_EQ(optimizer.gradient_norm(), 0);
}

}  // namespace
}  // namespace headwise::train
