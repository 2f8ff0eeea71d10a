#include "src/analysis/mask_checks.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>

#include <limits>
#include <utility>

#include "src/analysis/mask_cases.h"
#include "src/config/error.h"

namespace headwise::analysis {
namespace {

using nn::AttentionOutput;

/// The first place where `wrong` (B, …) is true, as indices.
std::vector<int64_t> first_place(const at::Tensor& wrong) {
  const at::Tensor place = wrong.nonzero()[0].contiguous();
  return {place.data_ptr<int64_t>(), place.data_ptr<int64_t>() + place.numel()};
}

int64_t count(const at::Tensor& wrong) { return wrong.sum().item<int64_t>(); }

/// (B, T_q): rows whose bits differ.
at::Tensor rows_that_differ(const at::Tensor& a, const at::Tensor& b) {
  const at::ScalarType bits = a.element_size() == 8 ? at::kLong : at::kInt;
  return a.contiguous().view(bits).ne(b.contiguous().view(bits)).any(-1);
}

/// What changing keys and values did to the rows that may see them and to those that may not.
struct Influence {
  std::string case_name;
  int64_t hidden_changed = 0, hidden_pairs = 0, visible_changed = 0;
  int64_t sequence = 0, row = 0, key = 0;  // the first pair that should not have met

  bool inverted() const { return hidden_changed > 0 && visible_changed == 0; }
  std::string leak() const {
    if (hidden_changed == 0) return "";
    return text_of(case_name, ": changing key ", key, " changed row ", row, " of sequence ",
                   sequence, ", which must not see it (", hidden_changed, " of ", hidden_pairs,
                   " hidden pairs)");
  }
};

class Trial {
 public:
  Trial(const MaskSubject& subject, const MaskTrial& trial) : subject_(subject), trial_(trial) {
    if (subject.same_lengths) trial_.keys = trial_.queries;
    inputs_ = make_inputs(subject, trial_, 1.0);
    for (MaskCase& mask_case : std::vector<MaskCase>{hide_case(trial_), causal_case(trial_),
                                                     padding_case(trial_, subject.same_lengths),
                                                     combined_case(trial_, subject.same_lengths)}) {
      cases_.push_back(std::move(mask_case));
    }
  }

  std::vector<MaskCheck> run() {
    const Influence hide = influence(cases_[0]), causal = influence(cases_[1]),
                    padding = influence(cases_[2]);
    return {{"not-inverted", inverted({hide, causal, padding})},
            {"hidden-weights", hidden_weights()},
            {"row-sums", row_sums()},
            {"visible-weights", visible_weights()},
            {"hide", hide.leak()},
            {"causal", causal.leak()},
            {"padding", first_of(padding.leak(), poisoned_padding())},
            {"sequences", sequences()},
            {"empty-rows", empty_rows()}};
  }

 private:
  AttentionOutput attend(const MaskInputs& inputs, const nn::AttentionMasks& masks) const {
    return subject_.attend(inputs.query, inputs.key, inputs.value, masks);
  }

  static std::string first_of(std::string first, std::string second) {
    return first.empty() ? second : first;
  }

  /// Every key is changed in turn, in all sequences at once.
  Influence influence(const MaskCase& mask_case) const {
    Influence result{.case_name = mask_case.name};
    const at::Tensor before = attend(inputs_, mask_case.masks).output;
    for (int64_t j = 0; j < trial_.keys; ++j) {
      MaskInputs changed{inputs_.query, inputs_.key.clone(), inputs_.value.clone()};
      changed.key.select(1, j).mul_(-3).add_(2);
      changed.value.select(1, j).mul_(-3).add_(2);
      const at::Tensor differs = rows_that_differ(before, attend(changed, mask_case.masks).output);
      const at::Tensor hidden = mask_case.hidden.select(2, j);
      const at::Tensor leaks = differs.logical_and(hidden);
      if (result.hidden_changed == 0 && count(leaks) > 0) {
        const std::vector<int64_t> place = first_place(leaks);
        result.sequence = place[0], result.row = place[1], result.key = j;
      }
      result.hidden_changed += count(leaks);
      result.hidden_pairs += count(hidden);
      result.visible_changed += count(differs) - count(leaks);
    }
    return result;
  }

  static std::string inverted(const std::vector<Influence>& influences) {
    std::string found;
    for (const Influence& influence : influences) {
      if (!influence.inverted()) continue;
      found += text_of(found.empty() ? "" : "; ", influence.case_name,
                       ": the mask is inverted: rows see only what it hides");
    }
    return found;
  }

  /// (B, H, T_q, T_k), of the size the weights have.
  static at::Tensor for_each_head(const at::Tensor& hidden, const at::Tensor& weights) {
    return hidden.unsqueeze(1).expand_as(weights);
  }

  std::string hidden_weights() const {
    for (const MaskCase& mask_case : cases_) {
      const at::Tensor weights = attend(inputs_, mask_case.masks).weights;
      const at::Tensor hidden = for_each_head(mask_case.hidden, weights);
      const at::Tensor wrong = weights.ne(0).logical_and(hidden);
      if (count(wrong) == 0) continue;
      const std::vector<int64_t> p = first_place(wrong);
      return text_of(mask_case.name, ": key ", p[3], " is hidden from row ", p[2], " of sequence ",
                     p[0], ", but head ", p[1], " gives it the weight ",
                     weights[p[0]][p[1]][p[2]][p[3]].item<double>(), " (", count(wrong), " of ",
                     count(hidden), " hidden weights are not 0)");
    }
    return "";
  }

  std::string row_sums() const {
    for (const MaskCase& mask_case : cases_) {
      const at::Tensor weights = attend(inputs_, mask_case.masks).weights;
      const at::Tensor sums = weights.sum(-1, false, at::kDouble);
      const at::Tensor wanted =
          mask_case.hidden.all(-1).logical_not().to(at::kDouble).unsqueeze(1).expand_as(sums);
      // Rounding of one sum, with room; "not within" so that NaN is wrong too.
      const double tolerance = weights.element_size() == 8 ? 1e-12 : 1e-5;
      const at::Tensor wrong = sums.sub(wanted).abs().le(tolerance).logical_not();
      if (count(wrong) == 0) continue;
      const std::vector<int64_t> p = first_place(wrong);
      return text_of(mask_case.name, ": the weights of row ", p[2], " of sequence ", p[0],
                     ", head ", p[1], " sum to ", sums[p[0]][p[1]][p[2]].item<double>(),
                     " and not ", wanted[p[0]][p[1]][p[2]].item<double>());
    }
    return "";
  }

  std::string visible_weights() const {
    // Inputs so small that all scores are close: a weight of 0 means hidden, not forgotten.
    const MaskInputs inputs = make_inputs(subject_, trial_, 1e-3);
    for (const MaskCase& mask_case : cases_) {
      const at::Tensor weights = attend(inputs, mask_case.masks).weights;
      const at::Tensor visible = for_each_head(mask_case.hidden.logical_not(), weights);
      const at::Tensor wrong = weights.gt(0).logical_not().logical_and(visible);
      if (count(wrong) == 0) continue;
      const std::vector<int64_t> p = first_place(wrong);
      return text_of(mask_case.name, ": key ", p[3], " is visible to row ", p[2], " of sequence ",
                     p[0], ", but head ", p[1], " gives it the weight ",
                     weights[p[0]][p[1]][p[2]][p[3]].item<double>(), " (", count(wrong), " of ",
                     count(visible), " visible weights)");
    }
    return "";
  }

  /// NaN past the lengths, as in memory that nobody wrote.
  std::string poisoned_padding() const {
    const MaskCase& mask_case = cases_[2];
    const at::Tensor past = at::arange(trial_.keys)
                                .view({1, trial_.keys, 1})
                                .ge(mask_case.masks.key_lengths->view({trial_.batch, 1, 1}));
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const MaskInputs poisoned{inputs_.query, inputs_.key.masked_fill(past, nan),
                              inputs_.value.masked_fill(past, nan)};
    const at::Tensor wrong = rows_that_differ(attend(inputs_, mask_case.masks).output,
                                              attend(poisoned, mask_case.masks).output);
    if (count(wrong) == 0) return "";
    const std::vector<int64_t> p = first_place(wrong);
    return text_of(mask_case.name, ": NaN past the length of sequence ", p[0], " changed its row ",
                   p[1], " (", count(wrong), " rows)");
  }

  /// Sequence b must not depend on what stands in the others.
  std::string sequences() const {
    const nn::AttentionMasks& masks = cases_[3].masks;
    const at::Tensor before = attend(inputs_, masks).output;
    for (int64_t b = 0; b < trial_.batch; ++b) {
      MaskInputs changed{inputs_.query.clone(), inputs_.key.clone(), inputs_.value.clone()};
      for (const at::Tensor& input : {changed.query, changed.key, changed.value}) {
        const at::Tensor kept = input[b].clone();
        input.mul_(-3).add_(2);
        input[b].copy_(kept);
      }
      const at::Tensor wrong = rows_that_differ(before, attend(changed, masks).output)[b];
      if (count(wrong) == 0) continue;
      return text_of("changing the other sequences changed row ", first_place(wrong)[0],
                     " of sequence ", b, " (", count(wrong), " rows)");
    }
    return "";
  }

  std::string empty_rows() const {
    const MaskCase mask_case = empty_rows_case(trial_);
    const AttentionOutput got = attend(inputs_, mask_case.masks);
    const at::Tensor empty = mask_case.hidden.all(-1);  // (B, T_q)
    const at::Tensor wanted = subject_.empty_row.defined()
                                  ? subject_.empty_row.to(got.output.options())
                                  : at::zeros({got.output.size(-1)}, got.output.options());
    const at::Tensor wrong = got.output.ne(wanted).any(-1).logical_and(empty);
    if (count(wrong) > 0) {
      const std::vector<int64_t> p = first_place(wrong);
      return text_of("row ", p[1], " of sequence ", p[0], " sees no key and should give ",
                     subject_.empty_row.defined() ? "only the output bias" : "0",
                     ", but gives values up to ", got.output[p[0]][p[1]].abs().max().item<double>(),
                     " (", count(wrong), " of ", count(empty), " such rows)");
    }
    const at::Tensor weighed = got.weights.ne(0).any(-1).any(1).logical_and(empty);
    if (count(weighed) > 0) {
      const std::vector<int64_t> p = first_place(weighed);
      return text_of("row ", p[1], " of sequence ", p[0],
                     " sees no key, but has weights other than 0");
    }
    const at::Tensor broken = got.output.isfinite().all(-1).logical_not();
    if (count(broken) == 0) return "";
    const std::vector<int64_t> p = first_place(broken);
    return text_of("NaN or infinity in row ", p[1], " of sequence ", p[0],
                   ", whose neighbours see no key");
  }

  const MaskSubject& subject_;
  MaskTrial trial_;
  MaskInputs inputs_;
  std::vector<MaskCase> cases_;  // hide, causal, lengths, together
};

}  // namespace

const std::vector<CheckMeaning>& mask_check_meanings() {
  static const std::vector<CheckMeaning> meanings = {
      {"not-inverted", "no mask shows what it should hide and hides the rest"},
      {"hidden-weights", "weights are exactly 0 where hidden"},
      {"row-sums", "the weights of a row sum to 1, or to 0 if it sees nothing"},
      {"visible-weights", "no weight is 0 where visible"},
      {"hide", "changing a key leaves rows that it is hidden from bitwise unchanged"},
      {"causal", "changing a later key leaves earlier rows bitwise unchanged"},
      {"padding", "neither other numbers nor NaN past the lengths change a bit"},
      {"sequences", "changing other sequences leaves a sequence bitwise unchanged"},
      {"empty-rows", "rows that see no key give 0 before the output projection, never NaN"}};
  return meanings;
}

std::vector<MaskCheck> check_masks(const MaskSubject& subject, const MaskTrial& trial) {
  const c10::NoGradGuard no_grad;
  return Trial(subject, trial).run();
}

}  // namespace headwise::analysis
