#include "src/decode/search.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "src/decode/best_tokens.h"
#include "src/decode/sentence_beam.h"

namespace headwise::decode {

namespace {

void require(bool condition, const std::string& message) {
  if (!condition) throw std::invalid_argument("search: " + message);
}

bool contains(const std::vector<int32_t>& ids, int32_t id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

void check(const std::vector<SearchRequest>& requests, const SearchOptions& options) {
  require(options.beam >= 1, "beam is " + std::to_string(options.beam) + "; needed: at least 1");
  require(options.nbest >= 1 && options.nbest <= options.beam,
          "nbest is " + std::to_string(options.nbest) + "; needed: 1 … beam (" +
              std::to_string(options.beam) + ")");
  require(options.min_length >= 0,
          "min_length is " + std::to_string(options.min_length) + "; needed: at least 0");
  require(std::isfinite(options.length_penalty),
          "length_penalty is " + std::to_string(options.length_penalty) + "; needed: a number");
  require(!contains(options.forbidden, options.eos),
          "the end token " + std::to_string(options.eos) + " is forbidden; use min_length");
  for (size_t i = 0; i < requests.size(); ++i) {
    const std::string place = "request " + std::to_string(i) + ": ";
    require(
        requests[i].max_length >= 0,
        place + "max_length is " + std::to_string(requests[i].max_length) + "; needed: at least 0");
    require(!contains(requests[i].prefix, options.eos),
            place + "the prefix holds the end token " + std::to_string(options.eos));
  }
}

/// All sentences that are still searched, and the rows they have in the present step.
class Batch {
 public:
  Batch(const StepFunction& step, const std::vector<SearchRequest>& requests,
        const SearchOptions& options)
      : step_(step), requests_(requests), options_(options), first_row_(requests.size()) {
    beams_.reserve(requests.size());
    for (const SearchRequest& request : requests) beams_.emplace_back(request, options);
    std::iota(first_row_.begin(), first_row_.end(), 0);  // the parents of the first step
  }

  std::vector<std::vector<Hypothesis>> run() {
    while (place_rows() > 0) advance(predict());
    std::vector<std::vector<Hypothesis>> results;
    for (SentenceBeam& beam : beams_) results.push_back(beam.take());
    return results;
  }

 private:
  struct Row {
    SentenceBeam* beam;
    int64_t pick_count;
  };

  /// Lines the live rows of all sentences up; returns their number.
  int64_t place_rows() {
    rows_.clear();
    tokens_.clear();
    parents_.clear();
    for (size_t i = 0; i < beams_.size(); ++i) {
      const auto first = static_cast<int64_t>(rows_.size());
      for (int64_t row = 0; row < beams_[i].row_count(); ++row) {
        rows_.push_back({&beams_[i], 0});
        tokens_.push_back(beams_[i].token(row));
        parents_.push_back(first_row_[i] + beams_[i].parent(row));
      }
      first_row_[i] = first;
    }
    return static_cast<int64_t>(rows_.size());
  }

  /// Runs the model on the live rows: (R, V) float on the CPU, without a copy where it is already.
  at::Tensor predict() {
    ++step_number_;
    const auto to_tensor = [](const std::vector<int64_t>& values) {
      at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
      std::copy(values.begin(), values.end(), tensor.data_ptr<int64_t>());
      return tensor;
    };
    at::Tensor result = step_(to_tensor(tokens_), to_tensor(parents_));
    if (result.dim() != 2 || result.size(0) != static_cast<int64_t>(rows_.size())) {
      fail("returned log-probabilities of another shape than (" + std::to_string(rows_.size()) +
           ", V)");
    }
    if (banned_.empty()) learn_vocabulary(result.size(1));
    if (result.size(1) != vocabulary()) {
      fail("returned " + std::to_string(result.size(1)) + " log-probabilities per row after " +
           std::to_string(vocabulary()));
    }
    return result.detach().to(at::kCPU, at::kFloat).contiguous();
  }

  /// The first step tells how many tokens there are; only now can ids be checked.
  void learn_vocabulary(int64_t size) {
    const auto check_id = [size](const std::string& kind, int32_t id) {
      require(id >= 0 && id < size, kind + " " + std::to_string(id) +
                                        " is outside the vocabulary of " + std::to_string(size));
    };
    check_id("the end token", options_.eos);
    for (const SearchRequest& request : requests_) {
      for (const int32_t id : request.prefix) check_id("prefix token", id);
    }
    banned_.assign(size, 0);
    for (const int32_t id : options_.forbidden) {
      check_id("forbidden token", id);
      banned_[id] = 1;
    }
  }

  int64_t vocabulary() const { return static_cast<int64_t>(banned_.size()); }

  void advance(const at::Tensor& log_probabilities) {
    const int64_t width = candidates_considered(options_.beam, vocabulary());
    pick_tokens(log_probabilities.const_data_ptr<float>(), width);
    for (size_t i = 0; i < beams_.size(); ++i) {
      SentenceBeam& beam = beams_[i];
      if (beam.row_count() == 0) continue;
      if (beam.forced()) {
        beam.advance_by_prefix();
        continue;
      }
      candidates_.clear();
      for (int64_t row = 0; row < beam.row_count(); ++row) {
        const int64_t place = first_row_[i] + row;
        for (int64_t pick = 0; pick < rows_[place].pick_count; ++pick) {
          const TokenPick& chosen = picks_[place * width + pick];
          candidates_.push_back(
              {beam.log_probability(row) + chosen.log_probability, row, chosen.token});
        }
      }
      beam.advance(candidates_);
      if (beam.row_count() == 0 && !beam.has_output()) {
        fail("leaves request " + std::to_string(i) + " no possible token");
      }
    }
  }

  void pick_tokens(const float* values, int64_t width) {
    constexpr int64_t kValuesPerTask = 1 << 16;
    const int64_t grain = std::max<int64_t>(1, kValuesPerTask / vocabulary());
    const auto row_size = static_cast<size_t>(vocabulary()),
               picks_size = static_cast<size_t>(width);
    picks_.resize(rows_.size() * picks_size);
    at::parallel_for(0, static_cast<int64_t>(rows_.size()), grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        if (rows_[row].beam->forced()) continue;
        const TokenFilter filter{banned_, rows_[row].beam->may_end() ? -1 : options_.eos};
        try {
          rows_[row].pick_count = best_tokens({values + row * row_size, row_size}, filter,
                                              {picks_.data() + row * picks_size, picks_size});
        } catch (const std::runtime_error& error) {
          fail("row " + std::to_string(row) + ": " + error.what());
        }
      }
    });
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error("search: step " + std::to_string(step_number_) + " " + what);
  }

  const StepFunction& step_;
  const std::vector<SearchRequest>& requests_;
  const SearchOptions& options_;
  std::vector<SentenceBeam> beams_;
  std::vector<int64_t> first_row_;  // of each sentence, in the step last placed
  std::vector<Row> rows_;
  std::vector<int64_t> tokens_, parents_;
  std::vector<char> banned_;      // one flag per token; empty before the first step
  std::vector<TokenPick> picks_;  // (rows, width)
  std::vector<Candidate> candidates_;
  int64_t step_number_ = 0;
};

}  // namespace

std::vector<std::vector<Hypothesis>> search(const StepFunction& step,
                                            const std::vector<SearchRequest>& requests,
                                            const SearchOptions& options) {
  check(requests, options);
  return Batch(step, requests, options).run();
}

}  // namespace headwise::decode
