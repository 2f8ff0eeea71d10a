#include "csrc/ops/packed_transformer.h"

#include <ATen/ATen.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>

#include "csrc/ops/launch.h"
#include "csrc/ops/packed_weights.h"

namespace headwise {
namespace ops {
namespace {

/// Tables for positions below `length`; whoever uses one keeps it alive.
template <typename C>
struct Positions {
  int64_t length = 0;
  std::vector<at::Tensor> tensors;
  const C* sinusoidal = nullptr;
  std::vector<kernels::RotaryTable<C>> encoder, decoder;  // of each layer

  kernels::PositionTables<C> of(const std::vector<kernels::RotaryTable<C>>& rotary) const {
    return {sinusoidal, rotary.data()};
  }
};

/// Where the sentences lie, for the kernels.
struct Layout {
  std::vector<int64_t> starts, padded_starts{0};
  int64_t longest = 0;

  Layout(const SourceTokens& source, int64_t multiple) : starts(source.starts) {
    for (size_t b = 0; b + 1 < starts.size(); ++b) {
      const int64_t length = starts[b + 1] - starts[b];
      longest = std::max(longest, length);
      padded_starts.push_back(padded_starts.back() +
                              kernels::cpu::divide_up(length, multiple) * multiple);
    }
  }
  kernels::SourceLayout view() const {
    return {int64_t(starts.size()) - 1, starts.data(), padded_starts.data()};
  }
};

void check_source(const SourceTokens& source, int64_t pieces) {
  bool whole = !source.starts.empty() && source.starts.front() == 0 &&
               source.starts.back() == int64_t(source.tokens.size());
  for (size_t b = 0; whole && b + 1 < source.starts.size(); ++b) {
    whole = source.starts[b] < source.starts[b + 1];
  }
  TORCH_CHECK_VALUE(whole, "starts must rise from 0 to the number of tokens, ",
                    source.tokens.size(), ", without an empty sentence");
  for (const int64_t token : source.tokens) {
    TORCH_CHECK_INDEX(token >= 0 && token < pieces, "source token ", token,
                      " is outside the vocabulary of ", pieces);
  }
}

template <typename C>
class Packed;

template <typename C>
class DecodingOf : public Decoding {
 public:
  DecodingOf(const Packed<C>& model, const SourceTokens& source, int64_t rows, int64_t capacity);
  void step(const DecodeRows& rows, DecodeChoices& choices) override;
  at::Tensor probabilities(const DecodeRows& rows) override;
  int64_t position() const override { return params_.position; }
  int64_t bytes() const override {
    int64_t total = probabilities_.defined() ? int64_t(probabilities_.nbytes()) : 0;
    for (const at::Tensor& tensor : tensors_) total += int64_t(tensor.nbytes());
    return total;
  }

 private:
  C* room(int64_t count) {
    constexpr at::ScalarType kType = WeightStore<C>::kType;
    return tensors_.emplace_back(empty_kept({count}, {1}, kType)).template mutable_data_ptr<C>();
  }
  void encode(const SourceTokens& source);
  void check(const DecodeRows& rows) const;
  void continue_parents(const DecodeRows& rows);
  void advance(const DecodeRows& rows);

  const Packed<C>& model_;
  const std::shared_ptr<const Positions<C>> positions_;
  const Layout layout_;
  std::vector<at::Tensor> tensors_;
  std::vector<kernels::SourceKeys<C>> cross_;
  std::vector<C*> cache_;
  std::vector<int32_t> places_, sentences_, old_places_, old_sentences_;
  std::vector<kernels::TokenChoice<C>> chosen_;
  at::Tensor probabilities_;  // (most rows, padded V), once they are asked for
  kernels::DecodeStepParams<C> params_;
};

template <typename C>
class Packed : public PackedTransformer {
 public:
  explicit Packed(const TransformerWeights& weights)
      : positions_of_(weights.positions), rotation_of_(weights.rotation) {
    store_.fill(weights, weights.encoder, encoder_layers, encoder);
    store_.fill(weights, weights.decoder, decoder_layers, decoder);
    TORCH_CHECK_VALUE(encoder.width == decoder.width, "encoder and decoder must have one width; ",
                      "got ", encoder.width, " and ", decoder.width);
    source_pieces = weights.encoder.embedding.size(0);
    target_pieces = weights.output.size(0);
    TORCH_CHECK_VALUE(weights.decoder.embedding.size(0) == target_pieces,
                      "the output layer must have as many pieces as the target embedding, ",
                      weights.decoder.embedding.size(0), "; got ", target_pieces);
    output = store_.matrix({weights.output, {}}, {1, target_pieces}, {1, decoder.width});
  }

  std::unique_ptr<Decoding> start(const SourceTokens& source, int64_t rows,
                                  int64_t capacity) const override {
    return std::make_unique<DecodingOf<C>>(*this, source, rows, capacity);
  }
  int64_t pieces() const override { return target_pieces; }

  std::shared_ptr<const Positions<C>> positions(int64_t length) const {
    const std::scoped_lock lock(mutex_);
    if (newest_ == nullptr || newest_->length < length) {
      int64_t rows = 64;
      while (rows < length) rows *= 2;
      newest_ = make_positions(rows);
    }
    return newest_;
  }

  std::vector<kernels::PackedLayer<C>> encoder_layers, decoder_layers;
  kernels::PackedStack<C> encoder, decoder;
  kernels::PackedMatrix<C> output;
  int64_t source_pieces = 0, target_pieces = 0;

 private:
  std::shared_ptr<const Positions<C>> make_positions(int64_t length) const {
    auto made = std::make_shared<Positions<C>>();
    made->length = length;
    const auto keep = [&](const at::Tensor& tensor) {
      made->tensors.push_back(tensor.to(WeightStore<C>::kType).contiguous());
      return made->tensors.back().template const_data_ptr<C>();
    };
    if (positions_of_) made->sinusoidal = keep(positions_of_(length));
    std::map<int64_t, kernels::RotaryTable<C>> of_width;
    const auto add = [&](const std::vector<kernels::PackedLayer<C>>& layers, auto& to) {
      for (const kernels::PackedLayer<C>& layer : layers) {
        kernels::RotaryTable<C>& table = of_width[layer.self.head_width];
        if (layer.self.rotary && table.cosine == nullptr) {
          const auto [cosine, sine] = rotation_of_(length, layer.self.head_width);
          table = {keep(cosine), keep(sine)};
        }
        to.push_back(table);
      }
    };
    add(encoder_layers, made->encoder);
    add(decoder_layers, made->decoder);
    return made;
  }

  WeightStore<C> store_;
  std::function<at::Tensor(int64_t)> positions_of_;
  std::function<std::pair<at::Tensor, at::Tensor>(int64_t, int64_t)> rotation_of_;
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const Positions<C>> newest_;
};

int64_t longest_of(const SourceTokens& source) {
  int64_t longest = 0;
  for (size_t b = 0; b + 1 < source.starts.size(); ++b) {
    longest = std::max(longest, source.starts[b + 1] - source.starts[b]);
  }
  return longest;
}

template <typename C>
DecodingOf<C>::DecodingOf(const Packed<C>& model, const SourceTokens& source, int64_t rows,
                          int64_t capacity)
    : model_(model),
      positions_(model.positions(std::max(longest_of(source), capacity))),
      layout_(source, 64 / int64_t(sizeof(C))) {
  check_source(source, model.source_pieces);
  TORCH_CHECK_VALUE(rows > 0 && capacity > 0, "rows and capacity must be at least 1; got ", rows,
                    " and ", capacity);
  for (const kernels::PackedLayer<C>& layer : model.decoder_layers) {
    const auto width = [](const kernels::PackedAttention<C>& attention) {
      return attention.kv_heads * kernels::cpu::padded<C>(attention.head_width);
    };
    cache_.push_back(room(capacity * rows * 2 * width(layer.self)));
    cross_.push_back({room(layout_.padded_starts.back() * width(layer.cross)),
                      room(layout_.starts.back() * width(layer.cross))});
  }
  params_.stack = model.decoder;
  params_.source = layout_.view();
  params_.longest = layout_.longest;
  params_.cross = cross_.data();
  params_.tables = positions_->of(positions_->decoder);
  params_.most_rows = rows;
  params_.capacity = capacity;
  params_.cache = cache_.data();
  params_.output = model.output;
  params_.pieces = model.target_pieces;
  encode(source);
}

template <typename C>
void DecodingOf<C>::encode(const SourceTokens& source) {
  constexpr int64_t kBlockTokens = 96;  // enough for products to run at their full speed
  kernels::EncodeParams<C> params;
  params.stack = model_.encoder;
  params.source = layout_.view();
  params.tokens = source.tokens.data();
  params.tables = positions_->of(positions_->encoder);
  params.longest = layout_.longest;
  params.decoder_layers = int64_t(model_.decoder_layers.size());
  params.decoder = model_.decoder_layers.data();
  params.results = cross_.data();
  std::vector<int64_t> blocks{0};
  const std::vector<int64_t>& starts = layout_.starts;
  for (size_t b = 1; b < starts.size(); ++b) {
    const bool last = b + 1 == starts.size();
    if (last || starts[b + 1] - starts[blocks.back()] > kBlockTokens) {
      params.most_tokens = std::max(params.most_tokens, starts[b] - starts[blocks.back()]);
      blocks.push_back(int64_t(b));
    }
  }
  params.block_count = int64_t(blocks.size()) - 1;
  params.blocks = blocks.data();
  run_on_threads(params);
}

template <typename C>
void DecodingOf<C>::check(const DecodeRows& rows) const {
  const int64_t count = int64_t(rows.tokens.size());
  TORCH_CHECK_VALUE(count > 0 && count <= params_.most_rows, "a step takes 1 to ",
                    params_.most_rows, " rows; got ", count);
  TORCH_CHECK_VALUE(
      rows.parents.size() == rows.tokens.size() && rows.may_end.size() == rows.tokens.size(),
      "parents and may_end must have a value for each of ", count, " rows; got ",
      rows.parents.size(), " and ", rows.may_end.size());
  TORCH_CHECK_VALUE(params_.position < params_.capacity, "there is room for ", params_.capacity,
                    " positions; one more does not fit");
  TORCH_CHECK_VALUE(rows.wanted > 0, "wanted must be at least 1; got ", rows.wanted);
  const int64_t parents =
      params_.position == 0 ? params_.source.sentences : static_cast<int64_t>(sentences_.size());
  for (int64_t r = 0; r < count; ++r) {
    TORCH_CHECK_INDEX(rows.tokens[r] >= 0 && rows.tokens[r] < params_.pieces, "token ",
                      rows.tokens[r], " is outside the vocabulary of ", params_.pieces);
    TORCH_CHECK_INDEX(rows.parents[r] >= 0 && rows.parents[r] < parents, "parent ", rows.parents[r],
                      " of row ", r, " is not one of ", parents);
  }
}

/// A row finds its past where its parent found it; the present position is its own.
template <typename C>
void DecodingOf<C>::continue_parents(const DecodeRows& rows) {
  const size_t count = rows.tokens.size();
  const int64_t past = params_.position, capacity = params_.capacity;
  std::swap(places_, old_places_);
  std::swap(sentences_, old_sentences_);
  places_.resize(count * size_t(capacity));
  sentences_.resize(count);
  for (size_t r = 0; r < count; ++r) {
    const int64_t parent = rows.parents[r];
    sentences_[r] = past == 0 ? int32_t(parent) : old_sentences_[size_t(parent)];
    int32_t* to = places_.data() + int64_t(r) * capacity;
    if (past > 0) std::copy_n(old_places_.data() + parent * capacity, past, to);
    to[past] = int32_t(r);
  }
}

template <typename C>
void DecodingOf<C>::advance(const DecodeRows& rows) {
  continue_parents(rows);
  params_.rows = int64_t(rows.tokens.size());
  params_.tokens = rows.tokens.data();
  params_.sentences = sentences_.data();
  params_.places = places_.data();
  run_on_threads(params_);
  ++params_.position;
}

template <typename C>
void DecodingOf<C>::step(const DecodeRows& rows, DecodeChoices& choices) {
  check(rows);
  const size_t count = rows.tokens.size();
  const int64_t wanted = std::min(rows.wanted, params_.pieces);
  chosen_.resize(count * size_t(wanted));
  choices.wanted = wanted;
  choices.counts.resize(count);
  params_.wanted = wanted;
  params_.forbidden = rows.forbidden.data();
  params_.forbidden_count = int64_t(rows.forbidden.size());
  params_.eos = rows.eos;
  params_.may_end = rows.may_end.data();
  params_.choices = chosen_.data();
  params_.choice_count = choices.counts.data();
  params_.probabilities = nullptr;
  advance(rows);
  choices.choices.resize(chosen_.size());
  for (size_t i = 0; i < chosen_.size(); ++i) {
    choices.choices[i] = {double(chosen_[i].log_probability), chosen_[i].token};
  }
}

template <typename C>
at::Tensor DecodingOf<C>::probabilities(const DecodeRows& rows) {
  check(rows);
  const int64_t count = int64_t(rows.tokens.size()), width = params_.output.width;
  if (!probabilities_.defined()) {
    probabilities_ = empty_kept({params_.most_rows, width}, {width, 1}, WeightStore<C>::kType);
  }
  params_.probabilities = probabilities_.template mutable_data_ptr<C>();
  advance(rows);
  return probabilities_.narrow(0, 0, count).narrow(1, 0, params_.pieces);
}

}  // namespace
}  // namespace ops

std::unique_ptr<PackedTransformer> pack_transformer(const TransformerWeights& weights) {
  const at::ScalarType type = weights.output.scalar_type();
  TORCH_CHECK_TYPE(type == at::kFloat || type == at::kDouble,
                   "pack_transformer takes float32 or float64 weights; got ", type);
  if (type == at::kDouble) return std::make_unique<ops::Packed<double>>(weights);
  return std::make_unique<ops::Packed<float>>(weights);
}

}  // namespace headwise
