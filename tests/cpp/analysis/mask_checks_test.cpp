// The mask checks are fed attention written down plainly, once right and then with one fault each.
#include "src/analysis/mask_checks.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace headwise::analysis {
namespace {

constexpr int64_t kHeads = 2, kWidth = 8;

enum class Fault {
  kNone,
  kInvertedHide,
  kInvertedCausal,
  kInvertedLengths,
  kSeesNextToken,      // causal, but one key too many
  kMissesOwnToken,     // causal, but one key too few
  kStartAligned,       // causal from the first key when the lengths differ
  kLargeNegative,      // -1e9 added instead of hiding
  kNaNRows,            // softmax of nothing
  kIgnoresLengths,     // padding is attended to
  kMultipliesPadding,  // weight 0 times whatever lies in the padding
  kUnevenSums,
  kSharesSequences,  // something of one sequence reaches all
  kPoliteWeights     // right weights, output from others
};

bool inverted(const char* rule, Fault fault) {
  const std::string name = rule;
  return (fault == Fault::kInvertedHide && name == "hide") ||
         (fault == Fault::kInvertedCausal && name == "causal") ||
         (fault == Fault::kInvertedLengths && name == "lengths");
}

/// (B, 1, T_q, T_k): what the function with this fault takes for hidden.
at::Tensor hidden_for(const nn::AttentionMasks& masks, int64_t batch, int64_t queries, int64_t keys,
                      Fault fault) {
  const at::Tensor none = at::zeros({batch, 1, queries, keys}, at::kBool);
  const auto given = [&](const char* rule, const at::Tensor& hidden) {
    return inverted(rule, fault) ? hidden.logical_not() : hidden;
  };
  at::Tensor hidden = none;
  const auto length = [&](const std::optional<at::Tensor>& lengths, int64_t tokens) {
    return lengths ? lengths->to(at::kLong) : at::full({batch}, tokens, at::kLong);
  };
  const at::Tensor query_lengths = length(masks.query_lengths, queries);
  const at::Tensor key_lengths = length(masks.key_lengths, keys);
  if (masks.hide) hidden = hidden.logical_or(given("hide", *masks.hide));
  if (masks.causal) {
    at::Tensor later = none.clone();
    for (int64_t b = 0; b < batch; ++b) {
      int64_t shift = key_lengths[b].item<int64_t>() - query_lengths[b].item<int64_t>();
      if (fault == Fault::kStartAligned) shift = 0;
      if (fault == Fault::kSeesNextToken) shift += 1;
      if (fault == Fault::kMissesOwnToken) shift -= 1;
      later[b][0] = at::ones({queries, keys}, at::kBool).triu(shift + 1);
    }
    hidden = hidden.logical_or(given("causal", later));
  }
  if (masks.key_lengths && fault != Fault::kIgnoresLengths) {
    const at::Tensor past =
        at::arange(keys).view({1, 1, 1, keys}).ge(key_lengths.view({batch, 1, 1, 1}));
    hidden = hidden.logical_or(given("lengths", past));
  }
  const at::Tensor gone =
      at::arange(queries).view({1, 1, queries, 1}).ge(query_lengths.view({batch, 1, 1, 1}));
  return hidden.logical_or(gone);
}

AttentionFunction attention_with(Fault fault) {
  return [fault](const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                 const nn::AttentionMasks& masks) {
    const at::Tensor hidden = hidden_for(masks, query.size(0), query.size(1), key.size(1), fault);
    const auto split = [&](const at::Tensor& x) {
      const at::Tensor clean = fault == Fault::kMultipliesPadding ? x : x.nan_to_num(0.0);
      return clean.unflatten(-1, {kHeads, kWidth / kHeads}).transpose(1, 2);
    };
    const at::Tensor q = split(query), k = split(key), v = split(value);
    const at::Tensor scores = at::matmul(q, k.transpose(2, 3)) / std::sqrt(double(kWidth / kHeads));
    at::Tensor weights =
        at::softmax(fault == Fault::kLargeNegative ? scores + hidden.to(scores.dtype()) * -1e9
                                                   : scores.masked_fill(hidden, -INFINITY),
                    -1);
    if (fault != Fault::kNaNRows) weights = weights.nan_to_num(0.0);
    if (fault == Fault::kUnevenSums) weights = weights * 1.01;
    const at::Tensor used = fault == Fault::kPoliteWeights ? at::softmax(scores, -1) : weights;
    at::Tensor output = at::matmul(used, v).transpose(1, 2).flatten(2);
    if (fault == Fault::kSharesSequences) output = output + value.nan_to_num(0.0).mean();
    return nn::AttentionOutput{output, weights};
  };
}

std::vector<MaskCheck> checks_of(Fault fault, bool same_lengths = false,
                                 at::ScalarType dtype = at::kFloat) {
  MaskSubject subject;
  subject.attend = attention_with(fault);
  subject.query_width = subject.key_width = subject.value_width = kWidth;
  subject.same_lengths = same_lengths;
  subject.options = at::TensorOptions(dtype);
  return check_masks(subject);
}

std::vector<std::string> failed(const std::vector<MaskCheck>& checks) {
  std::vector<std::string> names;
  for (const MaskCheck& check : checks) {
    if (!check.passed()) names.push_back(check.name);
  }
  return names;
}

std::string found_by(const std::vector<MaskCheck>& checks, const std::string& name) {
  for (const MaskCheck& check : checks) {
    if (check.name == name) return check.found;
  }
  ADD_FAILURE() << "there is no check " << name;
  return "";
}

TEST(MaskChecks, PassAFunctionThatIsRight) {
  for (const bool same_lengths : {false, true}) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble}) {
      const std::vector<MaskCheck> checks = checks_of(Fault::kNone, same_lengths, dtype);
      EXPECT_EQ(failed(checks), std::vector<std::string>());
      ASSERT_EQ(checks.size(), mask_check_meanings().size());
      for (size_t i = 0; i < checks.size(); ++i) {
        EXPECT_EQ(checks[i].name, mask_check_meanings()[i].name);
      }
    }
  }
}

TEST(MaskChecks, NameAnInvertedMask) {
  const std::pair<Fault, const char*> faults[] = {{Fault::kInvertedHide, "hide mask"},
                                                  {Fault::kInvertedCausal, "causal mask"},
                                                  {Fault::kInvertedLengths, "lengths"}};
  for (const auto& [fault, mask] : faults) {
    const std::vector<MaskCheck> checks = checks_of(fault);
    EXPECT_EQ(found_by(checks, "not-inverted"),
              std::string(mask) + ": the mask is inverted: rows see only what it hides");
    EXPECT_NE(found_by(checks, "hidden-weights"), "");
  }
}

struct Expectation {
  Fault fault;
  std::vector<std::string> names;  // exactly the checks that must fail
};

TEST(MaskChecks, NameEveryOtherFault) {
  const Expectation expectations[] = {
      {Fault::kSeesNextToken, {"hidden-weights", "row-sums", "causal"}},
      {Fault::kMissesOwnToken, {"row-sums", "visible-weights"}},
      {Fault::kLargeNegative, {"hidden-weights", "row-sums", "causal", "padding", "empty-rows"}},
      {Fault::kNaNRows, {"hidden-weights", "row-sums", "empty-rows"}},
      {Fault::kIgnoresLengths, {"hidden-weights", "padding"}},
      {Fault::kMultipliesPadding, {"padding"}},
      {Fault::kUnevenSums, {"row-sums"}},
      {Fault::kSharesSequences, {"hide", "causal", "padding", "sequences", "empty-rows"}},
      {Fault::kPoliteWeights, {"hide", "causal", "padding", "empty-rows"}}};
  for (const Expectation& expectation : expectations) {
    std::string names;
    for (const std::string& name : failed(checks_of(expectation.fault))) names += name + " ";
    std::string wanted;
    for (const std::string& name : expectation.names) wanted += name + " ";
    EXPECT_EQ(names, wanted) << "fault " << int(expectation.fault);
  }
}

}  // namespace
}  // namespace headwise::analysis
