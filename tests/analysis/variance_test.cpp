#include "covnoise/analysis/variance.h"
#include "covnoise/analysis/internal/study_json.h"

#include "covnoise/core/error.h"
#include "covnoise/datasets/glyphs.h"
#include "covnoise/nn/initialize.h"

#include <gtest/gtest.h>
#include <torch/types.h>

namespace covnoise {
namespace {

class Variance : public ::testing::Test {
 protected:
  VarianceStudy study(const std::string& name, VarianceOptions options) {
    model_ = make_model(name, {{1, 28, 28}, 10, options.small_batch});
    initialize(*model_, 3);
    Config run;
    run.model = name;
    run.data.name = "glyphs";
    static const DataSource source = make_glyphs();
    const Loader loader({source.train.images.narrow(0, 0, 500), source.train.labels.narrow(0, 0, 500)},
                        {false, {0.5}, {0.25}, 0, at::kFloat});
    return study_variance(run, *model_, loader, options, [](std::int64_t, std::int64_t) {});
  }

  static const LayerVariance& all(const VarianceStudy& study, std::size_t regime) {
    return study.regimes[regime].layers.back();
  }

  std::shared_ptr<Model> model_;
};

VarianceOptions quick(std::vector<std::string> regimes) {
  VarianceOptions options;
  options.regimes = std::move(regimes);
  options.samples = 16;
  options.small_batch = 8;
  options.large_batch = 64;
  return options;
}

/// The large batch has 1/8 of the small one's variance; with Fisher noise all of it (F has g g^T besides).
TEST_F(Variance, OfALargeBatchWithNoiseIsTheSmallBatchs) {
  const auto result = study("lenet", quick({}));
  ASSERT_EQ(result.regimes.size(), 4u);
  EXPECT_EQ(result.regimes[0].batch, 8);
  EXPECT_NEAR(all(result, 1).over_sb.value, 1.0 / 8, 4 * all(result, 1).over_sb.error);
  for (const std::size_t noisy : {2, 3}) {
    EXPECT_NEAR(all(result, noisy).over_sb.value, 1, 0.05 + 4 * all(result, noisy).over_sb.error);
    EXPECT_NEAR(all(result, noisy).over_actual.value, 1, 0.05 + 4 * all(result, noisy).over_actual.error);
  }
  EXPECT_EQ(result.regimes[0].layers.size(), 5u);  // four layers, and all
}

/// With batch statistics `ghost` is right and `exact` is not (docs/noise.md). Running statistics stay as they were.
TEST_F(Variance, WithBatchStatisticsGhostIsRight) {
  const auto result = study("resnet8", quick({"lb-diag:ghost", "lb-diag:exact"}));
  ASSERT_EQ(result.regimes.front().regime, "sb");
  EXPECT_NEAR(all(result, 1).over_sb.value, 1, 4 * all(result, 1).over_sb.error);
  EXPECT_NEAR(all(result, 1).over_actual.value, 1, 4 * all(result, 1).over_actual.error);
  EXPECT_GT(all(result, 2).over_actual.value, 1 + 4 * all(result, 2).over_actual.error);
  for (const auto& buffer : model_->named_buffers()) {
    const double start = buffer.key().find("running_var") != std::string::npos ? 1 : 0;
    EXPECT_TRUE(buffer.value().eq(start).all().item<bool>()) << buffer.key();
  }
}

TEST_F(Variance, RefusesWhatItCannotDo) {
  EXPECT_THROW(study("lenet", quick({"lb-dia"})), Error);
  EXPECT_THROW(study("lenet", quick({"lb-diag:exakt"})), Error);
  auto options = quick({});
  options.samples = 12;
  EXPECT_THROW(study("lenet", options), Error);
  options = quick({});
  options.large_batch = 60;
  EXPECT_THROW(study("lenet", options), Error);
}

}  // namespace
}  // namespace covnoise
