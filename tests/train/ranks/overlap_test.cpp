// Sums over ranks that start while the backward pass is running, against one sum after it.
#include "support/ranks.h"
#include "train/stepped.h"

#include <gtest/gtest.h>

namespace covnoise {
namespace {

using testing::kFourBuckets, testing::kOneBucket, testing::Stepped;

constexpr int kOverlapSteps = 3;

Config overlap_config(const std::string& model, std::vector<std::string> settings) {
  settings.insert(settings.begin(), {"noise.stop_after=0.9", "train.micro_batch=4", "train.precision=fp64"});
  return testing::stepped_config(model, kOverlapSteps, settings);
}

/// Rank 0's, of that many.
Stepped stepped(int ranks, const Config& config, const BucketOptions& buckets) {
  const auto source = testing::random_images();
  Stepped first;
  testing::as_ranks(ranks, [&](Communicator& communicator) {
    auto mine = testing::stepped_as(&communicator, config, source, buckets);
    if (communicator.rank() == 0) first = std::move(mine);
  });
  return first;
}

struct OverlapCase {
  std::string name;
  std::vector<std::string> settings;
  double tolerance = 1e-10;
  bool overlaps = true;
  std::string model = "resnet8";
};

class Overlap : public ::testing::TestWithParam<OverlapCase> {};

// Of two numbers in either order the sum is the same, bit for bit; of four, the order is that of a ring, which depends
// on where a bucket begins.
TEST_P(Overlap, GivesWhatOneSumAfterTheBackwardPassDoes) {
  const auto config = overlap_config(GetParam().model, GetParam().settings);
  for (const int ranks : {2, 4}) {
    const auto one = stepped(ranks, config, kOneBucket), four = stepped(ranks, config, kFourBuckets);
    EXPECT_LE((one.weights - four.weights).abs().max().item<double>(), ranks == 2 ? 0 : GetParam().tolerance);
    for (int step = 0; step < kOverlapSteps; ++step) {
      EXPECT_NEAR(one.results[step].loss, four.results[step].loss, 1e-6);
      EXPECT_NEAR(one.results[step].noise_norm, four.results[step].noise_norm, 1e-6);
      EXPECT_NEAR(one.results[step].grad_norm, four.results[step].grad_norm, 1e-6);
    }
    EXPECT_EQ(one.bytes, four.bytes);
    EXPECT_EQ(one.bytes_before, 0u);
    EXPECT_EQ(four.bytes_before > 0, GetParam().overlaps);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, Overlap,
    ::testing::Values(
        OverlapCase{"none", {}}, OverlapCase{"ghost", {"noise.structure=diag-fisher", "train.nesterov=true"}},
        OverlapCase{"exact_in_gradient",
                    {"noise.structure=diag-fisher", "noise.estimator=exact", "noise.placement=gradient"},
                    1e-10,
                    true,
                    "mlp"},
        OverlapCase{"kfac", {"noise.structure=kfac"}}, OverlapCase{"trace", {"noise.structure=fisher-trace"}},
        OverlapCase{"isotropic_and_clipped", {"noise.structure=isotropic", "train.clip_norm=0.5"}},
        OverlapCase{"clipped", {"noise.structure=diag-fisher", "train.clip_norm=0.5"}, 1e-10, false},
        OverlapCase{"clipped_in_gradient",
                    {"noise.structure=diag-fisher", "noise.placement=gradient", "train.clip_norm=0.5"}},
        OverlapCase{"sharpness", {"noise.structure=diag-fisher", "train.sharpness=0.1", "train.sharpness_batch=4"}},
        OverlapCase{"labels_of_the_model", {"noise.structure=diag-fisher", "noise.labels=model"}, 1e-10, false},
        OverlapCase{"full_fisher", {"noise.structure=full-fisher"}, 1e-10, false}),
    [](const auto& info) { return info.param.name; });

// Clipping needs the noise as a message of its own only where earlier noise is in the sum.
TEST(OverlapBytes, OfClippedNoiseDependOnThePlacement) {
  const std::vector<std::string> settings = {"noise.structure=diag-fisher", "train.clip_norm=0.5"};
  const auto bytes = [&](const std::string& more) {
    auto all = settings;
    all.push_back(more);
    return stepped(2, overlap_config("mlp", all), kFourBuckets).bytes;
  };
  const auto plain = stepped(2, overlap_config("mlp", {}), kFourBuckets).bytes;
  EXPECT_EQ(bytes("noise.placement=gradient"), plain);
  EXPECT_EQ(bytes("train.momentum=0"), plain);
  EXPECT_GT(bytes("noise.placement=update"), plain);
}

TEST(OverlapBytes, NoiseSendsNoneMore) {
  const auto plain = stepped(2, overlap_config("resnet8", {}), kFourBuckets);
  const auto noisy = stepped(2, overlap_config("resnet8", {"noise.structure=diag-fisher"}), kFourBuckets);
  EXPECT_GT(plain.bytes, 0u);
  EXPECT_EQ(noisy.bytes, plain.bytes);
}

}  // namespace
}  // namespace covnoise
