#include "csrc/ops/ensemble.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "csrc/kernels/transformer/cpu/choices.h"

namespace headwise {
namespace {

using kernels::TokenChoice;
using kernels::cpu::RowChoices;

/// The best of each row of float64 probabilities (R, V), as DecodeChoices has them.
class Chooser {
 public:
  Chooser(const DecodeRows& rows, const at::Tensor& probabilities)
      : rows_(rows),
        pieces_(probabilities.size(1)),
        wanted_(std::min(rows.wanted, pieces_)),
        probabilities_(probabilities.contiguous()) {}

  void fill(DecodeChoices& choices) const {
    const int64_t count = probabilities_.size(0);
    choices.wanted = wanted_;
    choices.choices.assign(size_t(count * wanted_), {});
    choices.counts.resize(size_t(count));
    std::vector<TokenChoice<double>> best(static_cast<size_t>(wanted_));
    for (int64_t r = 0; r < count; ++r) {
      const int64_t found = choose(r, best.data());
      choices.counts[size_t(r)] = found;
      for (int64_t k = 0; k < found; ++k) {
        const TokenChoice<double>& choice = best[size_t(k)];
        choices.choices[size_t(r * wanted_ + k)] = {std::log(choice.log_probability), choice.token};
      }
    }
  }

 private:
  /// How many were found; `best` holds probabilities.
  int64_t choose(int64_t r, TokenChoice<double>* best) const {
    const double* row = probabilities_.const_data_ptr<double>() + r * pieces_;
    if (std::isnan(row[0])) {  // then all are
      for (int64_t k = 0; k < wanted_; ++k) best[k] = {row[0], int32_t(k)};
      return wanted_;
    }
    RowChoices<double> choices{best};
    choices.floor = 0;  // what cannot come is no choice
    for (int64_t token = 0; token < pieces_; ++token) {
      if (row[token] > choices.floor && may_come(r, int32_t(token))) {
        choices.insert(row[token], int32_t(token), wanted_);
      }
    }
    return choices.count;
  }

  bool may_come(int64_t r, int32_t token) const {
    if (token == rows_.eos && !rows_.may_end[size_t(r)]) return false;
    return std::find(rows_.forbidden.begin(), rows_.forbidden.end(), token) ==
           rows_.forbidden.end();
  }

  const DecodeRows& rows_;
  const int64_t pieces_, wanted_;
  const at::Tensor probabilities_;
};

class EnsembleDecoding : public Decoding {
 public:
  explicit EnsembleDecoding(std::vector<std::unique_ptr<Decoding>> members)
      : members_(std::move(members)) {}

  void step(const DecodeRows& rows, DecodeChoices& choices) override {
    Chooser(rows, probabilities(rows)).fill(choices);
  }

  at::Tensor probabilities(const DecodeRows& rows) override {
    at::Tensor sum;
    for (const std::unique_ptr<Decoding>& member : members_) {
      const at::Tensor own = member->probabilities(rows);
      sum = sum.defined() ? sum.add_(own) : own.to(at::kDouble);
    }
    return sum.div_(double(members_.size()));
  }

  int64_t position() const override { return members_.front()->position(); }
  int64_t bytes() const override {
    int64_t total = 0;
    for (const std::unique_ptr<Decoding>& member : members_) total += member->bytes();
    return total;
  }

 private:
  const std::vector<std::unique_ptr<Decoding>> members_;
};

class Ensemble : public PackedTransformer {
 public:
  explicit Ensemble(std::vector<std::unique_ptr<PackedTransformer>> models)
      : models_(std::move(models)) {}

  std::unique_ptr<Decoding> start(const SourceTokens& source, int64_t rows,
                                  int64_t capacity) const override {
    std::vector<std::unique_ptr<Decoding>> members;
    for (const std::unique_ptr<PackedTransformer>& model : models_) {
      members.push_back(model->start(source, rows, capacity));
    }
    return std::make_unique<EnsembleDecoding>(std::move(members));
  }
  int64_t pieces() const override { return models_.front()->pieces(); }

 private:
  const std::vector<std::unique_ptr<PackedTransformer>> models_;
};

}  // namespace

std::unique_ptr<PackedTransformer> ensemble_of(
    std::vector<std::unique_ptr<PackedTransformer>> models) {
  TORCH_CHECK_VALUE(!models.empty(), "an ensemble needs at least one model");
  for (const std::unique_ptr<PackedTransformer>& model : models) {
    TORCH_CHECK_VALUE(model->pieces() == models.front()->pieces(),
                      "models of an ensemble must have equally many target pieces; got ",
                      models.front()->pieces(), " and ", model->pieces());
  }
  if (models.size() == 1) return std::move(models.front());
  return std::make_unique<Ensemble>(std::move(models));
}

}  // namespace headwise
