// What a person reads of a run.
#include "src/train/progress.h"

#include <gtest/gtest.h>

namespace headwise::train {
namespace {

Progress moment() {
  Progress progress;
  progress.step = 1200;
  progress.epoch = 2.5;
  progress.loss = 1.25;
  progress.nll = 1.0;
  progress.learning_rate = 3e-4;
  progress.gradient_norm = 0.5;
  progress.tokens_per_second = 12345.6;
  progress.padding_share = 0.25;
  progress.remaining_seconds = 61;
  return progress;
}

TEST(ProgressLine, ShowsEveryNumberWithItsName) {
  EXPECT_EQ(line_of(moment()),
            "step 1200  epoch 2.50  loss 1.250  nll 1.000  lr 3.00e-04  norm 0.50  "
            "12346 tokens/s  padding 25 % skipped  eta 1:01");
}

TEST(ProgressLine, RemainingTimeReadsAsAClock) {
  const auto eta = [](double seconds) {
    Progress progress = moment();
    progress.remaining_seconds = seconds;
    const std::string line = line_of(progress);
    return line.substr(line.rfind(' ') + 1);
  };
  EXPECT_EQ(eta(0), "0:00");
  EXPECT_EQ(eta(59.6), "1:00");
  EXPECT_EQ(eta(3599), "59:59");
  EXPECT_EQ(eta(3661), "1:01:01");
  EXPECT_EQ(eta(-1), "?");
}

}  // namespace
}  // namespace headwise::train
