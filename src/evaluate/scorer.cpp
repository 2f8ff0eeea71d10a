#include "src/evaluate/scorer.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "csrc/ops/linear_cross_entropy.h"
#include "src/evaluate/batch_tensors.h"

namespace headwise::evaluate {
namespace {

/// Calls visit(batch, pair indices) for every pair once, longest targets first.
template <typename Visit>
void for_each_batch(const data::EncodedCorpus& corpus, const data::BatcherOptions& batching,
                    const SafePoint& safe_point, const Visit& visit) {
  std::vector<int64_t> order(size_t(corpus.size()));
  std::iota(order.begin(), order.end(), int64_t{0});
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    return corpus.target[size_t(a)].size() > corpus.target[size_t(b)].size();
  });
  for (size_t begin = 0; begin < order.size();) {
    std::vector<int64_t> indices;
    int64_t tokens = 0;
    for (size_t i = begin; i < order.size(); ++i) {
      const auto pair = size_t(order[i]);
      tokens += int64_t(std::max(corpus.source[pair].size(), corpus.target[pair].size())) + 1;
      if (!indices.empty() && tokens > batching.batch_tokens) break;
      indices.push_back(order[i]);
    }
    begin += indices.size();
    safe_point();
    visit(data::pack(corpus, indices, batching), indices);
  }
}

at::Tensor hidden_states(model::Transformer& model, const data::Batch& batch) {
  return model->decode(tensors_of(batch.target), model->encode(tensors_of(batch.source)));
}

}  // namespace

CorpusLoss corpus_loss(model::Transformer& model, const data::EncodedCorpus& corpus,
                       const data::BatcherOptions& batching, double smoothing,
                       const SafePoint& safe_point) {
  at::NoGradGuard no_grad;
  model->eval();
  CorpusLoss total;
  for_each_batch(corpus, batching, safe_point,
                 [&](const data::Batch& batch, const std::vector<int64_t>&) {
                   const LinearCrossEntropyResult loss =
                       linear_cross_entropy(hidden_states(model, batch), model->output_weight(),
                                            labels_of(batch), {.label_smoothing = smoothing});
                   total.nll += loss.nll.item<double>();
                   total.smoothed += loss.loss.item<double>();
                   total.labels += int64_t(batch.labels.size());
                 });
  return total;
}

std::vector<double> score_pairs(model::Transformer& model, const data::EncodedCorpus& corpus,
                                const data::BatcherOptions& batching, const SafePoint& safe_point) {
  at::NoGradGuard no_grad;
  model->eval();
  std::vector<double> scores(size_t(corpus.size()));
  for_each_batch(
      corpus, batching, safe_point,
      [&](const data::Batch& batch, const std::vector<int64_t>& indices) {
        const at::Tensor log_p = at::log_softmax(model->logits(hidden_states(model, batch)), -1);
        const at::Tensor picked =
            log_p.gather(1, labels_of(batch).unsqueeze(1)).squeeze(1).to(at::kDouble);
        for (size_t b = 0; b < indices.size(); ++b) {
          const int64_t begin = batch.target.starts[b];
          const int64_t length = batch.target.starts[b + 1] - begin;
          scores[size_t(indices[b])] = picked.narrow(0, begin, length).sum().item<double>();
        }
      });
  return scores;
}

}  // namespace headwise::evaluate
