// twin_probe CHECKPOINT SOURCE TARGET OUTPUT: scores, loss and gradients of a checkpoint on two
// texts, all pairs in one packed batch, as a safetensors file for tests/python/test_twin.py; and
// the losses of 100 updates from there on, in float64.
#include <ATen/ATen.h>

#include <cstdio>
#include <exception>
#include <numeric>

#include "csrc/ops/linear_cross_entropy.h"
#include "src/data/text_file.h"
#include "src/evaluate/batch_tensors.h"
#include "src/io/model_io.h"
#include "src/train/micro_batches.h"
#include "src/train/optimizer.h"

namespace headwise {
namespace {

data::Batch read_batch(const io::LoadedModel& loaded, const char* source, const char* target) {
  data::EncodedCorpus corpus;
  for (const std::string& line : data::read_lines(source).lines) {
    corpus.source.push_back(loaded.vocabularies.source.encode(line));
    corpus.lines.push_back(corpus.size());
  }
  for (const std::string& line : data::read_lines(target).lines) {
    corpus.target.push_back(loaded.vocabularies.target.encode(line));
  }
  std::vector<int64_t> all(corpus.source.size());
  std::iota(all.begin(), all.end(), int64_t{0});
  return data::pack(corpus, all, train::batching_of(loaded.config.train, loaded.vocabularies));
}

constexpr int64_t kUpdates = 100;
constexpr double kLearningRate = 0.001, kEpsilon = 1e-6;

/// Mean losses before each of some updates of the model in float64.
at::Tensor train_in_float64(model::Transformer& model, const data::Batch& batch, double smoothing) {
  model->to(at::kDouble);
  const io::Tensors parameters = io::parameters_of(*model);
  train::Optimizer optimizer(parameters, {.epsilon = kEpsilon});
  const at::Tensor labels = evaluate::labels_of(batch);
  at::Tensor losses = at::empty({kUpdates}, at::kDouble);
  for (int64_t step = 0; step < kUpdates; ++step) {
    for (const auto& [name, parameter] : parameters) parameter.mutable_grad().zero_();
    const at::Tensor hidden = model->decode(evaluate::tensors_of(batch.target),
                                            model->encode(evaluate::tensors_of(batch.source)));
    const at::Tensor loss =
        linear_cross_entropy(hidden, model->output_weight(), labels, {.label_smoothing = smoothing})
            .loss /
        labels.numel();
    losses[step] = loss.detach();
    loss.backward();
    optimizer.update(kLearningRate, step + 1);
  }
  return losses;
}

void probe(char** arguments) {
  const io::LoadedModel loaded = io::load_model(arguments[1]);
  const data::Batch batch = read_batch(loaded, arguments[2], arguments[3]);
  model::Transformer model = loaded.model;
  const at::Tensor hidden = model->decode(evaluate::tensors_of(batch.target),
                                          model->encode(evaluate::tensors_of(batch.source)));
  const at::Tensor labels = evaluate::labels_of(batch);
  const LinearCrossEntropyResult loss =
      linear_cross_entropy(hidden, model->output_weight(), labels,
                           {.label_smoothing = loaded.config.train.label_smoothing});
  (loss.loss / double(labels.numel())).backward();

  io::Tensors results = {{"source_tokens", evaluate::tensors_of(batch.source).tokens},
                         {"labels", labels},
                         {"logits", model->logits(hidden)},
                         {"smoothed", loss.loss},
                         {"nll", loss.nll}};
  for (const auto& [name, parameter] : io::parameters_of(*model)) {
    results["gradient." + name] = parameter.grad().clone();
  }
  results["losses"] = train_in_float64(model, batch, loaded.config.train.label_smoothing);
  io::save_tensors(arguments[4], results);
}

}  // namespace
}  // namespace headwise

int main(int count, char** arguments) {
  if (count != 5) {
    std::fprintf(stderr, "usage: twin_probe CHECKPOINT SOURCE TARGET OUTPUT\n");
    return 2;
  }
  try {
    headwise::probe(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "twin_probe: %s\n", error.what());
    return 1;
  }
  return 0;
}
