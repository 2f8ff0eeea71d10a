#include "src/model/loss.h"

#include <ATen/ATen.h>
#include <torch/autograd.h>

#include <algorithm>

namespace headwise::model {
namespace {

constexpr int64_t kChunkRows = 256;

struct Sums {
  double smoothed = 0, nll = 0;
};

/// Adds one chunk's loss; writes its gradients when `grad_hidden` is defined.
void add_chunk(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
               double smoothing, Sums& sums, at::Tensor grad_hidden, at::Tensor& grad_weight) {
  const auto pieces = double(weight.size(0));
  at::Tensor scores = at::mm(hidden, weight.t());
  const at::Tensor label_column = labels.unsqueeze(1);
  const at::Tensor picked = scores.gather(1, label_column);
  const at::Tensor average = scores.mean(1, /*keepdim=*/true);
  at::Tensor probabilities = at::softmax(scores, 1);
  const at::Tensor log_sum = scores.amax({1}, true) - probabilities.amax({1}, true).log();
  const double log_sums = log_sum.sum(at::kDouble).item<double>();
  const double nll = log_sums - picked.sum(at::kDouble).item<double>();
  sums.nll += nll;
  sums.smoothed +=
      (1 - smoothing) * nll + smoothing * (log_sums - average.sum(at::kDouble).item<double>());
  if (!grad_hidden.defined()) return;
  at::Tensor& grad_scores = probabilities;
  grad_scores.sub_(smoothing / pieces);
  grad_scores.scatter_add_(1, label_column, at::full_like(picked, -(1 - smoothing)));
  at::mm_out(grad_hidden, grad_scores, weight);
  grad_weight.addmm_(grad_scores.t(), hidden);
}

class LinearCrossEntropy : public torch::autograd::Function<LinearCrossEntropy> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& hidden,
                            const at::Tensor& weight, const at::Tensor& labels, double smoothing,
                            Sums* sums, bool differentiate) {
    at::Tensor grad_hidden = differentiate ? at::empty_like(hidden) : at::Tensor();
    at::Tensor grad_weight = differentiate ? at::zeros_like(weight) : at::Tensor();
    for (int64_t row = 0; row < hidden.size(0); row += kChunkRows) {
      const int64_t rows = std::min(kChunkRows, hidden.size(0) - row);
      add_chunk(hidden.narrow(0, row, rows), weight, labels.narrow(0, row, rows), smoothing, *sums,
                differentiate ? grad_hidden.narrow(0, row, rows) : at::Tensor(), grad_weight);
    }
    if (differentiate) context->save_for_backward({grad_hidden, grad_weight});
    return at::full({}, sums->smoothed, hidden.options().requires_grad(false));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = context->get_saved_variables();
    const at::Tensor& scale = gradients[0];
    return {saved[0] * scale, saved[1] * scale, at::Tensor(),
            at::Tensor(),     at::Tensor(),     at::Tensor()};
  }
};

}  // namespace

Loss linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight,
                          const at::Tensor& labels, double smoothing) {
  TORCH_CHECK(hidden.dim() == 2 && weight.dim() == 2 && hidden.size(1) == weight.size(1),
              "linear_cross_entropy: hidden (N, E) and weight (V, E) needed; got ", hidden.sizes(),
              " and ", weight.sizes());
  TORCH_CHECK(labels.dim() == 1 && labels.size(0) == hidden.size(0),
              "linear_cross_entropy: labels (N) needed with N = ", hidden.size(0), "; got ",
              labels.sizes());
  const bool differentiate =
      at::GradMode::is_enabled() && (hidden.requires_grad() || weight.requires_grad());
  Sums sums;
  Loss loss;
  loss.smoothed =
      LinearCrossEntropy::apply(hidden, weight, labels, smoothing, &sums, differentiate);
  loss.nll = sums.nll;
  return loss;
}

}  // namespace headwise::model
