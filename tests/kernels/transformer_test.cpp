// The encoder and decoding steps against plain loops that compute everything anew, on every
// instruction set of the machine.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <string>
#include <vector>

#include "csrc/kernels/cpu/instruction_set.h"
#include "csrc/kernels/transformer/pack.h"
#include "csrc/kernels/transformer/params.h"
#include "tests/kernels/run_plan.h"
#include "tests/kernels/transformer_reference.h"

namespace headwise::testing {
namespace {

using kernels::HeadSide;

/// The same model, packed.
template <typename C>
class PackedModel {
 public:
  explicit PackedModel(const PlainModel<C>& plain)
      : encoder_layers(layers(plain.encoder)),
        decoder_layers(layers(plain.decoder)),
        encoder(stack(plain, encoder_layers, plain.encoder_norm)),
        decoder(stack(plain, decoder_layers, plain.decoder_norm)),
        output(matrix({plain.shape.pieces, plain.shape.width, plain.output, {}}, {}, {})),
        rotary(plain.shape.layers, {plain.cosine.data(), plain.sine.data()}),
        tables{plain.shape.rotary ? nullptr : plain.sinusoidal.data(), rotary.data()} {}

 private:
  std::deque<std::vector<C>> memory_;

 public:
  const std::vector<kernels::PackedLayer<C>> encoder_layers, decoder_layers;
  const kernels::PackedStack<C> encoder, decoder;
  const kernels::PackedMatrix<C> output;
  const std::vector<kernels::RotaryTable<C>> rotary;
  const kernels::PositionTables<C> tables;

 private:
  kernels::PackedMatrix<C> matrix(const PlainLinear<C>& from, HeadSide out, HeadSide in,
                                  double factor = 1) {
    if (out.width == 0) out = {1, from.out};
    if (in.width == 0) in = {1, from.in};
    const kernels::PlainWeight<C> plain{
        from.weight.data(), from.bias.empty() ? nullptr : from.bias.data(), out, in, C(factor)};
    const kernels::MatrixPacker<C> packer(plain);
    return packer.pack(memory_.emplace_back(packer.size()).data());
  }
  kernels::LayerNorm<C> norm(const PlainNorm<C>& from) {
    const auto padded = [&](std::vector<C> row) {
      row.resize(kernels::cpu::padded<C>(int64_t(row.size())));
      return memory_.emplace_back(std::move(row)).data();
    };
    return {padded(from.weight), padded(from.bias), kNormEpsilon};
  }
  kernels::PackedAttention<C> attention(const PlainAttention<C>& from) {
    const HeadSide queries{from.heads, from.width}, keys{from.kv_heads, from.width};
    return {from.heads,
            from.kv_heads,
            from.width,
            from.rotary,
            matrix(from.query, queries, {}, 1 / std::sqrt(double(from.width))),
            matrix(from.key, keys, {}),
            matrix(from.value, keys, {}),
            matrix(from.output, {}, queries),
            norm(from.norm)};
  }
  std::vector<kernels::PackedLayer<C>> layers(const std::vector<PlainLayer<C>>& plain) {
    std::vector<kernels::PackedLayer<C>> made;
    for (const PlainLayer<C>& layer : plain) {
      made.push_back({attention(layer.self), attention(layer.cross), matrix(layer.in, {}, {}),
                      matrix(layer.out, {}, {}), norm(layer.norm)});
    }
    return made;
  }
  kernels::PackedStack<C> stack(const PlainModel<C>& plain,
                                const std::vector<kernels::PackedLayer<C>>& made,
                                const PlainNorm<C>& last) {
    const ModelShape& shape = plain.shape;
    return {shape.width,
            shape.feed_forward,
            shape.pre_norm,
            shape.gelu ? kernels::ActivationKind::kGelu : kernels::ActivationKind::kRelu,
            shape.layers,
            made.data(),
            shape.pre_norm ? norm(last) : kernels::LayerNorm<C>{},
            plain.embedding.data(),
            kEmbeddingScale};
  }
};

struct StepCase {
  ModelShape shape;
  std::vector<int64_t> lengths = {3, 1, 17, 8};  // of the sources
  int64_t beam = 3, steps = 5, wanted = 6;
  int64_t block_sentences = 2;
  bool silent = false;  // an output layer of zeros: all scores are equal
};

/// Sources encoded, and rows that go on from random parents with random tokens.
template <typename C>
class StepRun {
 public:
  explicit StepRun(const StepCase& given)
      : c_(given),
        random_{given.beam, given.shape.width},
        plain_(plain_model(c_, random_)),
        model_(plain_) {
    const int64_t multiple = 64 / sizeof(C);
    for (const int64_t length : c_.lengths) {
      sources_.push_back(some_tokens(length));
      tokens_.insert(tokens_.end(), sources_.back().begin(), sources_.back().end());
      starts_.push_back(starts_.back() + length);
      padded_starts_.push_back(padded_starts_.back() +
                               (length + multiple - 1) / multiple * multiple);
    }
    width_ = c_.shape.kv_heads * kernels::cpu::padded<C>(c_.shape.head_width);
    for (int64_t i = 0; i < c_.shape.layers; ++i) {
      keys_.emplace_back(padded_starts_.back() * width_, kNaN);
      values_.emplace_back(starts_.back() * width_, kNaN);
      cross_.push_back({keys_.back().data(), values_.back().data()});
      caches_.emplace_back(c_.steps * most_rows() * 2 * width_, kNaN);
      cache_.push_back(caches_.back().data());
    }
  }

  void encode() {
    std::vector<int64_t> blocks{0};
    kernels::EncodeParams<C> params;
    while (blocks.back() < sentences()) {
      const int64_t next = std::min(blocks.back() + c_.block_sentences, sentences());
      params.most_tokens = std::max(params.most_tokens, starts_[next] - starts_[blocks.back()]);
      blocks.push_back(next);
    }
    params.stack = model_.encoder;
    params.source = source();
    params.tokens = tokens_.data();
    params.tables = model_.tables;
    params.block_count = int64_t(blocks.size()) - 1;
    params.blocks = blocks.data();
    params.longest = longest();
    params.decoder_layers = c_.shape.layers;
    params.decoder = model_.decoder_layers.data();
    params.results = cross_.data();
    run_plan(params, Order::kShuffled);
    for (const auto& source : sources_) states_.push_back(exact().encode(source));
  }

  /// Draws the next rows, runs the step and compares.
  void step(int64_t position, double tolerance) {
    draw(position);
    kernels::DecodeStepParams<C> params;
    params.stack = model_.decoder;
    params.source = source();
    params.longest = longest();
    params.cross = cross_.data();
    params.tables = model_.tables;
    params.rows = int64_t(rows_.size());
    params.most_rows = most_rows();
    params.capacity = c_.steps;
    params.position = position;
    std::vector<int64_t> given;
    std::vector<int32_t> sentences, places;
    std::vector<char> may_end;
    for (const Row& row : rows_) {
      given.push_back(row.tokens.back());
      sentences.push_back(row.sentence);
      places.insert(places.end(), row.places.begin(), row.places.end());
      places.resize(sentences.size() * c_.steps, -1);
      may_end.push_back(row.may_end);
    }
    params.tokens = given.data();
    params.sentences = sentences.data();
    params.cache = cache_.data();
    params.places = places.data();
    params.output = model_.output;
    params.pieces = c_.shape.pieces;
    params.wanted = c_.wanted;
    params.forbidden = kForbidden.data();
    params.forbidden_count = int64_t(kForbidden.size());
    params.eos = kEos;
    params.may_end = may_end.data();
    choices_.assign(rows_.size() * c_.wanted, {});
    counts_.assign(rows_.size(), -1);
    params.choices = choices_.data();
    params.choice_count = counts_.data();
    run_plan(params, Order::kShuffled);
    const int64_t width = model_.output.width;
    probabilities_.assign(rows_.size() * width, kNaN);
    params.probabilities = probabilities_.data();
    params.choices = nullptr;
    params.choice_count = nullptr;
    run_plan(params, Order::kShuffled);
    for (size_t r = 0; r < rows_.size(); ++r) compare(r, tolerance);
  }

  const std::vector<kernels::TokenChoice<C>>& choices() const { return choices_; }

 private:
  using Sum = std::conditional_t<std::is_same_v<C, float>, double, long double>;
  static constexpr C kNaN = std::numeric_limits<C>::quiet_NaN();
  static constexpr int32_t kEos = 3;
  inline static const std::vector<int32_t> kForbidden = {0, 5, 2};

  struct Row {
    int32_t sentence;
    bool may_end;
    std::vector<int64_t> tokens;
    std::vector<int32_t> places;
  };

  static PlainModel<C> plain_model(const StepCase& c, Random& random) {
    PlainModel<C> plain(c.shape, random);
    if (c.silent) std::fill(plain.output.begin(), plain.output.end(), C{0});
    return plain;
  }

  int64_t sentences() const { return int64_t(c_.lengths.size()); }
  int64_t longest() const { return *std::max_element(c_.lengths.begin(), c_.lengths.end()); }
  int64_t most_rows() const { return sentences() * c_.beam + 1; }
  kernels::SourceLayout source() const {
    return {sentences(), starts_.data(), padded_starts_.data()};
  }
  PlainTransformer<C, Sum> exact() const { return PlainTransformer<C, Sum>(plain_); }

  std::vector<int64_t> some_tokens(int64_t count) {
    std::vector<int64_t> tokens(count);
    for (int64_t& token : tokens) token = random_.below(c_.shape.pieces);
    return tokens;
  }

  void draw(int64_t position) {
    std::vector<Row> next;
    for (int32_t b = 0; b < sentences(); ++b) {
      std::vector<Row> parents;
      for (const Row& row : rows_) {
        if (row.sentence == b) parents.push_back(row);
      }
      if (position == 0) parents.push_back({b, true, {}, {}});
      if (parents.empty() || (position > 2 && b == 1)) continue;  // one sentence is done
      const int64_t children = position == 0 ? 1 : c_.beam;
      for (int64_t i = 0; i < children; ++i) {
        Row row = parents[random_.below(int64_t(parents.size()))];
        row.may_end = random_.chance(50);
        row.tokens.push_back(random_.below(c_.shape.pieces));
        row.places.push_back(int32_t(next.size()));
        next.push_back(row);
      }
    }
    rows_ = next;
  }

  /// What was chosen has the log-probability that plain loops find, and nothing better was left;
  /// the probabilities of all pieces are theirs too.
  void compare(size_t r, double tolerance) {
    const Row& row = rows_[r];
    const std::vector<Sum> judge = exact().predict(row.tokens, states_[row.sentence]);
    for (int64_t v = 0; v < c_.shape.pieces; ++v) {
      const double found = double(probabilities_[r * model_.output.width + v]);
      EXPECT_NEAR(found, double(std::exp(judge[v])), tolerance) << "row " << r << " piece " << v;
    }
    std::vector<int32_t> allowed;
    for (int32_t v = 0; v < c_.shape.pieces; ++v) {
      const bool forbidden = std::count(kForbidden.begin(), kForbidden.end(), v) > 0;
      if (!forbidden && (v != kEos || row.may_end)) allowed.push_back(v);
    }
    std::stable_sort(allowed.begin(), allowed.end(),
                     [&](int32_t a, int32_t b) { return judge[a] > judge[b]; });
    ASSERT_EQ(counts_[r], std::min<int64_t>(c_.wanted, int64_t(allowed.size())));
    for (int64_t i = 0; i < counts_[r]; ++i) {
      const auto& choice = choices_[r * c_.wanted + i];
      const double found = double(choice.log_probability);
      EXPECT_NEAR(found, double(judge[choice.token]), tolerance) << "row " << r << " choice " << i;
      EXPECT_NEAR(found, double(judge[allowed[i]]), tolerance) << "row " << r << " choice " << i;
      if (i == 0) continue;
      EXPECT_GE(choices_[r * c_.wanted + i - 1].log_probability, choice.log_probability);
    }
  }

  const StepCase c_;
  Random random_;
  const PlainModel<C> plain_;
  const PackedModel<C> model_;
  std::vector<std::vector<int64_t>> sources_;
  std::vector<int64_t> tokens_, starts_{0}, padded_starts_{0};
  int64_t width_ = 0;
  std::deque<std::vector<C>> keys_, values_, caches_;
  std::vector<kernels::SourceKeys<C>> cross_;
  std::vector<C*> cache_;
  std::vector<std::vector<std::vector<Sum>>> states_;
  std::vector<Row> rows_;
  std::vector<kernels::TokenChoice<C>> choices_;
  std::vector<int64_t> counts_;
  std::vector<C> probabilities_;
};

template <typename C>
void check(const StepCase& c) {
  SCOPED_TRACE(::testing::Message()
               << "E " << c.shape.width << " D " << c.shape.head_width << " G " << c.shape.kv_heads
               << " V " << c.shape.pieces << " beam " << c.beam << " gelu " << c.shape.gelu
               << " rotary " << c.shape.rotary << " pre " << c.shape.pre_norm);
  StepRun<C> run(c);
  run.encode();
  for (int64_t t = 0; t < c.steps; ++t) run.step(t, sizeof(C) == 4 ? 2e-5 : 1e-12);
}

class TransformerKernels : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::cpu::use_instruction_set(GetParam()); }
  void TearDown() override { kernels::cpu::use_instruction_set(""); }
};

TEST_P(TransformerKernels, EqualPlainLoops) {
  const ModelShape plain;
  std::vector<ModelShape> shapes(6, plain);
  shapes[1].pre_norm = false;
  shapes[1].gelu = true;
  shapes[2].rotary = true;
  shapes[2].kv_heads = 2;
  shapes[3] = {20, 30, 23, 1, 3, 1, 6, true, false, true, false};     // nothing in whole vectors
  shapes[4] = {64, 128, 600, 2, 2, 2, 32, true, false, false, true};  // two chunks of pieces
  shapes[5] = {33, 65, 1100, 1, 2, 1, 48, false, true, false, true};
  for (const ModelShape& shape : shapes) {
    check<float>({.shape = shape});
    check<double>({.shape = shape});
  }
}

TEST_P(TransformerKernels, ManyRowsAreCutIntoBlocks) {
  StepCase c;
  c.shape = {16, 16, 50, 1, 2, 1, 8};
  c.lengths = {5, 9, 2};
  c.beam = 41;  // 123 rows: more than a block of the layers, of the output and of one sentence
  c.steps = 3;
  c.block_sentences = 3;
  check<float>(c);
  c.lengths = {70, 33};  // source sentences of several vectors
  c.beam = 2;
  check<float>(c);
  check<double>(c);
}

TEST_P(TransformerKernels, OneRowAsksForOneTokenOrForAll) {
  for (const int64_t pieces : {5, 1300}) {
    StepCase c;
    c.shape.pieces = pieces;
    c.shape.layers = 1;
    c.lengths = {4};
    c.beam = 1;
    for (const int64_t wanted : {int64_t{1}, int64_t{20}, pieces}) {
      c.wanted = std::min(wanted, pieces);
      check<float>(c);
    }
  }
}

TEST_P(TransformerKernels, OfEqualScoresTheLowerTokenComesFirst) {
  // Without an output layer all scores are 0.
  for (const int64_t wanted : {3, 40}) {
    StepCase c;
    c.shape.pieces = 1200;
    c.wanted = wanted;
    c.lengths = {4};
    c.beam = 1;
    c.shape.layers = 1;
    c.silent = true;
    StepRun<float> run(c);
    run.encode();
    run.step(0, 1e-5);
    for (int64_t i = 1; i < wanted; ++i) {
      EXPECT_EQ(run.choices()[i].log_probability, run.choices()[0].log_probability);
      EXPECT_GT(run.choices()[i].token, run.choices()[i - 1].token);
    }
    EXPECT_EQ(run.choices()[0].token, 1);
    EXPECT_LE(run.choices()[wanted - 1].token, wanted + 3) << "0, 2, 3 and 5 may be missing";
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, TransformerKernels,
                         ::testing::ValuesIn(kernels::cpu::instruction_sets()));

}  // namespace
}  // namespace headwise::testing
