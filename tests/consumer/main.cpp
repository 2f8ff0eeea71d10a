#include <headwise/nn.h>
#include <torch/torch.h>

#include <iostream>

int main() {
  torch::manual_seed(1);
  headwise::nn::MultiHeadAttention attention(
      headwise::nn::MultiHeadAttentionOptions{.embed_dim = 64, .num_heads = 4, .num_kv_heads = 2});
  torch::optim::SGD optimizer(attention->parameters(), /*lr=*/1.0);
  const torch::Tensor x = torch::randn({8, 16, 64}), wanted = torch::randn({8, 16, 64});
  const auto loss = [&] {
    return torch::mse_loss(attention->forward(x, x, x, {.causal = true}).output, wanted);
  };
  const torch::Tensor before = loss();
  before.backward();
  optimizer.step();
  std::cout << before.item<double>() << " -> " << loss().item<double>() << "\n";
}
