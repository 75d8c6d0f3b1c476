// One rank on the tests' device, summing by buckets, against one bucket and against no process group at all. On a GPU
// the passes are captured in the second step of a kind, and the sums go out between the parts of each replay.
#include "support/ranks.h"
#include "train/stepped.h"

#include <gtest/gtest.h>

namespace covnoise {
namespace {

constexpr int kOneRankSteps = 10;  // six with noise: as it is, captured, four times replayed; four of another kind

/// With one bucket, and with one for each layer.
std::pair<testing::Stepped, testing::Stepped> of_one_rank(const Config& config, const DataSource& source) {
  std::pair<testing::Stepped, testing::Stepped> result;
  CommunicatorOptions options;
  options.device = testing::device();
  testing::as_ranks(
      1,
      [&](Communicator& communicator) {
        result.first = testing::stepped_as(&communicator, config, source, testing::kOneBucket);
        result.second = testing::stepped_as(&communicator, config, source, {100, 1});
      },
      options);
  return result;
}

double largest_difference(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

struct OneRankCase {
  std::string name;
  std::vector<std::string> settings;
  double tolerance = 1e-4;  // against no process group, where noise is not differenced: of float32
  double of_buckets = 0;    // between one bucket and many, on a GPU; else they have the same bits
};

class OneRank : public ::testing::TestWithParam<OneRankCase> {};

TEST_P(OneRank, GivesTheSameInBuckets) {
  const auto source = testing::random_images();
  for (const std::string model : {"mlp", "resnet8"}) {
    for (const std::string micro_batch : {"16", "8"}) {
      auto settings = GetParam().settings;
      settings.insert(settings.end(),
                      {"train.micro_batch=" + micro_batch, "noise.stop_after=0.6", "train.precision=fp32",
                       "run.deterministic=true", "run.device=" + testing::device_name()});
      const auto config = testing::stepped_config(model, kOneRankSteps, settings);
      const auto [one, many] = of_one_rank(config, source);
      const double of_buckets = testing::device().is_cuda() ? GetParam().of_buckets : 0;
      EXPECT_LE(largest_difference(many.weights, one.weights), of_buckets) << model << " " << micro_batch;
      EXPECT_EQ(many.bytes, one.bytes);
      for (int step = 0; step < kOneRankSteps; ++step) {
        EXPECT_NEAR(many.results[step].loss, one.results[step].loss, of_buckets);
        EXPECT_NEAR(many.results[step].noise_norm, one.results[step].noise_norm, 1e-4);
      }
      const auto alone = testing::stepped_as(nullptr, config, source, {});
      EXPECT_LT(largest_difference(one.weights, alone.weights), GetParam().tolerance) << model << " " << micro_batch;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, OneRank,
    ::testing::Values(
        OneRankCase{"none", {}}, OneRankCase{"ghost", {"noise.structure=diag-fisher"}},
        OneRankCase{"exact", {"noise.structure=diag-fisher", "noise.estimator=exact"}},
        OneRankCase{"refreshed", {"noise.structure=diag-fisher", "noise.refresh=2"}},
        // The factors of a bucket that have one size are rooted together: on a GPU their last bits may differ.
        OneRankCase{"kfac", {"noise.structure=kfac"}, 1e-4, 1e-6},
        OneRankCase{"trace", {"noise.structure=fisher-trace"}},
        OneRankCase{"multiplicative", {"noise.structure=multiplicative"}},
        // A difference of two passes, in which ReLUs of ghost batches of two examples enlarge rounding.
        OneRankCase{"penalty", {"noise.penalty=1e-3", "noise.penalty_every=2", "noise.penalty_step=0.1"}, 1e-3},
        // A pass at weights that the gradient moved, which depends on its rounding.
        OneRankCase{"sharp",
                    {"noise.structure=diag-fisher", "train.sharpness=0.1", "train.sharpness_batch=8",
                     "train.sharpness_every=2"},
                    1e-3},
        OneRankCase{"clipped", {"noise.structure=diag-fisher", "train.clip_norm=0.5"}},
        OneRankCase{"in_weights", {"noise.structure=diag-fisher", "noise.placement=weights", "noise.radius=0.05"}},
        OneRankCase{"full_in_weights", {"noise.structure=full-fisher", "noise.placement=weights", "noise.scale=0.1"}},
        OneRankCase{"clipped_in_gradient",
                    {"noise.structure=diag-fisher", "noise.placement=gradient", "train.clip_norm=0.5"}}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace covnoise
