// Updates against torch::optim's, the gradient's norm and its clipping.
#include "src/train/optimizer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>

#include <cmath>
#include <limits>
#include <map>
#include <memory>

namespace headwise::train {
namespace {

io::Tensors parameters_like(const std::vector<at::Tensor>& values) {
  io::Tensors parameters;
  for (size_t i = 0; i < values.size(); ++i) {
    parameters[std::string("p").append(std::to_string(i))] = values[i].clone().requires_grad_();
  }
  return parameters;
}

std::vector<at::Tensor> in_order(const io::Tensors& tensors) {
  std::vector<at::Tensor> values;
  for (const auto& [name, tensor] : tensors) values.push_back(tensor);
  return values;
}

/// torch's own optimiser for the same options.
std::unique_ptr<torch::optim::Optimizer> reference(const std::vector<at::Tensor>& parameters,
                                                   const config::OptimizerConfig& config) {
  const auto with = [&](auto options) {
    options.betas(std::make_tuple(config.beta1, config.beta2));
    options.eps(config.epsilon).weight_decay(config.weight_decay);
    return options;
  };
  if (config.kind == config::OptimizerKind::kAdam) {
    return std::make_unique<torch::optim::Adam>(parameters, with(torch::optim::AdamOptions(1.0)));
  }
  return std::make_unique<torch::optim::AdamW>(parameters, with(torch::optim::AdamWOptions(1.0)));
}

void set_rate(torch::optim::Optimizer& optimizer, config::OptimizerKind kind, double rate) {
  auto& options = optimizer.param_groups().front().options();
  if (kind == config::OptimizerKind::kAdam) {
    static_cast<torch::optim::AdamOptions&>(options).lr(rate);
  } else {
    static_cast<torch::optim::AdamWOptions&>(options).lr(rate);
  }
}

// Muon written down plainly in float64, one matrix product after the other.
at::Tensor plain_muon_update(const at::Tensor& gradient) {
  at::Tensor x = gradient / gradient.norm();
  for (int step = 0; step < 5; ++step) {
    const at::Tensor xxt = x.matmul(x.t());
    x = 3.4445 * x - 4.775 * xxt.matmul(x) + 2.0315 * xxt.matmul(xxt).matmul(x);
  }
  return x;
}

TEST(MuonUpdates, EqualThePlainFormula) {
  config::OptimizerConfig config;
  config.kind = config::OptimizerKind::kMuon;
  config.weight_decay = 0.1;
  at::manual_seed(3);
  const io::Tensors ours = {
      {"encoder_0.square.weight", at::randn({6, 6}).requires_grad_()},
      {"decoder_1.tall.weight", at::randn({9, 4}).requires_grad_()},
      {"decoder_1.wide.weight", at::randn({4, 9}).requires_grad_()},
      {"decoder_1.wide.bias", at::randn({4}).requires_grad_()},
      {"embedding.weight", at::randn({5, 3}).requires_grad_()},
  };
  std::map<std::string, at::Tensor> values, means;
  std::vector<at::Tensor> rest;
  for (const auto& [name, parameter] : ours) {
    values[name] = parameter.detach().to(at::kDouble);
    means[name] = at::zeros_like(values[name]);
    if (name == "embedding.weight" || parameter.dim() == 1) rest.push_back(parameter.clone());
  }
  for (at::Tensor& parameter : rest) parameter = parameter.detach().requires_grad_();
  config::OptimizerConfig adamw = config;
  adamw.kind = config::OptimizerKind::kAdamW;
  const auto torchs = reference(rest, adamw);
  Optimizer optimizer(ours, config);
  for (int64_t step = 1; step <= 10; ++step) {
    const double rate = 0.01 / double(step);
    size_t next = 0;
    for (const auto& [name, parameter] : ours) {
      const at::Tensor gradient = at::randn(parameter.sizes());
      parameter.grad().copy_(gradient);
      if (name == "embedding.weight" || parameter.dim() == 1) {
        rest[next++].mutable_grad() = gradient.clone();
        continue;
      }
      means[name] = 0.95 * means[name] + 0.05 * gradient;
      const at::Tensor ahead = 0.05 * gradient + 0.95 * means[name];
      const double shape = double(parameter.size(0)) / double(parameter.size(1));
      values[name] = values[name] * (1 - 7 * rate * 0.1) -
                     7 * rate * std::sqrt(std::max(1.0, shape)) * plain_muon_update(ahead);
    }
    optimizer.update(rate, step);
    set_rate(*torchs, adamw.kind, rate);
    torchs->step();
  }
  size_t next = 0;
  for (const auto& [name, parameter] : ours) {
    const bool is_rest = name == "embedding.weight" || parameter.dim() == 1;
    const at::Tensor want = is_rest ? rest[next++].to(at::kDouble) : values[name];
    EXPECT_TRUE(at::allclose(parameter.to(at::kDouble), want, 1e-5, 1e-5)) << name;
  }
  EXPECT_EQ(optimizer.state().count("second_moment.encoder_0.square.weight"), 0u);
  EXPECT_EQ(optimizer.state().count("first_moment.encoder_0.square.weight"), 1u);
}

// Whatever the sizes, singular values end near 1 and the singular vectors stay.
TEST(MuonUpdates, AreNearlyOrthogonal) {
  at::manual_seed(4);
  for (const auto& [rows, columns] :
       {std::pair{128, 128}, std::pair{128, 256}, std::pair{96, 32}}) {
    const at::Tensor matrix = at::randn({rows, columns}, at::kDouble) * 1e-3;
    const auto [u, s, v] = at::linalg_svd(matrix, false);
    const at::Tensor turned = u.t().matmul(orthogonalized(matrix)).matmul(v.t());
    const at::Tensor values = turned.diagonal();
    EXPECT_LT((turned - values.diag()).abs().max().item<double>(), 1e-9);
    EXPECT_GT(values.median().item<double>(), 0.7);
    EXPECT_LT(values.max().item<double>(), 1.3);
  }
  EXPECT_EQ(orthogonalized(at::zeros({4, 4})).abs().max().item<double>(), 0);
}

TEST(MuonUpdates, DoNotDependOnThreads) {
  config::OptimizerConfig config;
  config.kind = config::OptimizerKind::kMuon;
  std::vector<at::Tensor> results;
  const int before = at::get_num_threads();
  for (const int threads : {1, 2, 3}) {
    at::set_num_threads(threads);
    at::manual_seed(5);
    io::Tensors parameters = {{"embedding.weight", at::randn({64, 96}).requires_grad_()}};
    for (int n = 0; n < 5; ++n) {
      parameters["encoder_" + std::to_string(n)] = at::randn({64, 96}).requires_grad_();
    }
    Optimizer optimizer(parameters, config);
    for (const auto& [name, parameter] : parameters) {
      parameter.grad().copy_(at::randn(parameter.sizes()));
    }
    optimizer.update(0.01, 1);
    results.push_back(at::stack(in_order(parameters)));
  }
  at::set_num_threads(before);
  EXPECT_TRUE(at::equal(results[0], results[1]));
  EXPECT_TRUE(at::equal(results[0], results[2]));
}

class Updates : public ::testing::TestWithParam<std::pair<config::OptimizerKind, double>> {};

TEST_P(Updates, EqualTorchsOver25Steps) {
  config::OptimizerConfig config;
  config.kind = GetParam().first;
  config.weight_decay = GetParam().second;
  at::manual_seed(1);
  // A matrix, a vector, and more elements than a SIMD width divides.
  const std::vector<at::Tensor> start = {at::randn({5, 3}), at::randn({7}), at::randn({131})};
  const io::Tensors ours = parameters_like(start), theirs = parameters_like(start);
  Optimizer optimizer(ours, config);
  const auto torchs = reference(in_order(theirs), config);

  for (int64_t step = 1; step <= 25; ++step) {
    const double rate = 0.01 / double(step);
    for (const auto& [name, parameter] : ours) {
      // From 1e-6 to 1: small gradients, where epsilon counts, and zeros.
      at::Tensor gradient = at::randn(parameter.sizes()) * std::pow(10.0, double(-(step % 7)));
      if (step % 5 == 0) gradient.zero_();
      parameter.grad().copy_(gradient);
      theirs.at(name).mutable_grad() = gradient.clone();
    }
    optimizer.update(rate, step);
    set_rate(*torchs, config.kind, rate);
    torchs->step();
    for (const auto& [name, parameter] : ours) {
      EXPECT_TRUE(at::allclose(parameter, theirs.at(name), 1e-6, 1e-7))
          << name << " after step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizer, Updates,
                         ::testing::Values(std::pair{config::OptimizerKind::kAdam, 0.0},
                                           std::pair{config::OptimizerKind::kAdam, 0.1},
                                           std::pair{config::OptimizerKind::kAdamW, 0.0},
                                           std::pair{config::OptimizerKind::kAdamW, 0.1}));

TEST(Optimizer, StateHasBothMomentsOfEveryParameterAndSharesThem) {
  const io::Tensors parameters = parameters_like({at::ones({2}), at::ones({3})});
  Optimizer optimizer(parameters, {});
  for (const auto& [name, parameter] : parameters) parameter.grad().fill_(2.0);
  optimizer.update(0.1, 1);
  const io::Tensors state = optimizer.state();
  ASSERT_EQ(state.size(), 4u);
  EXPECT_TRUE(at::allclose(state.at("first_moment.p0"), at::full({2}, 0.1 * 2)));
  EXPECT_TRUE(at::allclose(state.at("second_moment.p1"), at::full({3}, 0.02 * 4), 1e-6, 0));
  at::Tensor(state.at("first_moment.p0")).zero_();
  EXPECT_EQ(optimizer.state().at("first_moment.p0").sum().item<double>(), 0);
}

class GradientNorm : public ::testing::Test {
 protected:
  void set(const std::vector<float>& a, const std::vector<float>& b) {
    parameters.at("p0").grad().copy_(at::tensor(a));
    parameters.at("p1").grad().copy_(at::tensor(b));
  }
  io::Tensors parameters = parameters_like({at::zeros({2}), at::zeros({1})});
  Optimizer optimizer{parameters, {}};
};

TEST_F(GradientNorm, IsTakenOverAllParametersTogether) {
  set({2, 3}, {6});
  EXPECT_NEAR(optimizer.gradient_norm(), 7, 1e-6);
}

TEST_F(GradientNorm, OfNothingIsZero) { EXPECT_EQ(optimizer.gradient_norm(), 0); }

TEST_F(GradientNorm, IsNotFiniteWhenAnEntryIsNot) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    set({1, bad}, {2});
    EXPECT_FALSE(std::isfinite(optimizer.gradient_norm()));
  }
}

TEST_F(GradientNorm, ScalingReachesEveryEntry) {
  set({2, 3}, {6});
  optimizer.scale_gradients(1.0 / 7);
  EXPECT_NEAR(optimizer.gradient_norm(), 1, 1e-7);
  EXPECT_NEAR(parameters.at("p1").grad().item<double>(), 6.0 / 7, 1e-7);
}

}  // namespace
}  // namespace headwise::train
