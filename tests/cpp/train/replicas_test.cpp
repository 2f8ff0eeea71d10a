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
      EXPECT_NE(other[item.key()].grad().data_ptr(), item.value().grad().data_ptr()) << item.key();
    }
  }
}

TEST_F(ReplicasTest, AnUpdateOfTheFirstIsSeenByAll) {
  weight(0).mutable_grad().fill_(1);
  optimizer.update(0.1, 1);
  EXPECT_TRUE(at::equal(weight(0), weight(2)));
}

TEST_F(ReplicasTest, GradientsAreSummedIntoTheFirst) {
  for (int64_t i = 0; i < 3; ++i) weight(i).mutable_grad().fill_(double(i + 1));
  replicas.sum_gradients();
  EXPECT_TRUE(at::equal(weight(0).grad(), at::full_like(weight(0), 6)));
}

TEST_F(ReplicasTest, ZeroForgetsNaN) {
  for (int64_t i = 0; i < 3; ++i) weight(i).mutable_grad().fill_(std::nanf(""));
  replicas.zero_gradients();
  replicas.sum_gradients();
  EXPECT_EQ(optimizer.gradient_norm(), 0);
}

}  // namespace
}  // namespace headwise::train
