// Runs with noise.placement = "weights": what they say and record, and that they resume bit for bit.
#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/train/internal/checkpoint.h"
#include "covnoise/train/internal/metrics.h"
#include "support/temporary_folder.h"
#include "train/small_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TrainOptions weights_run(const std::string& structure, const std::string& model = "mlp") {
  TrainOptions options = testing::small_run("lb-diag", model);
  options.config.noise.structure = structure;
  if (structure != "diag-fisher") options.config.noise.estimator = structure == "signs" ? "signs" : "auto";
  if (structure == "signs") options.config.noise.structure = "diag-fisher";
  options.config.noise.placement = Placement::kWeights;
  return options;
}

std::string newest_file(const std::filesystem::path& run, const char* file) {
  return read_file(CheckpointStore(run / "checkpoints").list().back().path / file);
}

class WeightNoiseResume : public ::testing::TestWithParam<std::string> {};

TEST_P(WeightNoiseResume, IsBitForBit) {
  const testing::TemporaryFolder folder;
  auto options = weights_run(GetParam(), GetParam() == "kfac" ? "mlp" : "resnet8");
  options.config.train.ema = 0.5;
  if (GetParam() == "fisher-trace") options.config.noise.refresh = 3;
  if (GetParam() == "full-fisher") options.config.noise.radius = 0.1;
  options.out = folder / "calm";
  ASSERT_EQ(train(options), Outcome::kFinished);
  for (const int when : {1, 3}) {
    options.out = folder / std::to_string(when);
    int steps = 0;
    options.stop_requested = [&] { return ++steps == when; };
    ASSERT_EQ(train(options), Outcome::kInterrupted);
    options.stop_requested = [] { return false; };
    ASSERT_EQ(train(options), Outcome::kFinished);
    for (const char* file : {"model.safetensors", "optimizer.safetensors"})
      EXPECT_EQ(newest_file(options.out, file), newest_file(folder / "calm", file)) << when << " " << file;
  }
}

INSTANTIATE_TEST_SUITE_P(Table, WeightNoiseResume,
                         ::testing::Values("diag-fisher", "full-fisher", "signs", "fisher-trace", "kfac",
                                           "multiplicative", "isotropic"),
                         [](const auto& info) {
                           std::string name = info.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

TEST(WeightNoiseRun, RefusesACheckpointWithoutItsNoise) {
  const testing::TemporaryFolder folder;
  auto options = weights_run("isotropic");
  options.out = folder / "run";
  options.stop_requested = [] { return true; };
  ASSERT_EQ(train(options), Outcome::kInterrupted);
  CheckpointStore store(options.out / "checkpoints");
  auto newest = *store.load_latest([](const std::string& line) { FAIL() << line; });
  newest.checkpoint.optimizer.pop_back();
  remove_tree(newest.path);
  store.save(newest.checkpoint, newest.step, newest.scheduled, newest.best_step);
  EXPECT_THAT([&] { train(options); },
              ThrowsMessage<Error>(HasSubstr("is damaged: optimizer.safetensors has no noise.weights.")));
}

TEST(WeightNoiseRun, SaysAndRecordsWhatItDoes) {
  const testing::TemporaryFolder folder;
  auto options = weights_run("diag-fisher");
  options.config.noise.radius = 0.25;
  options.config.noise.stop_after = 0.75;  // three of four steps
  options.config.train.clip_norm = 0.5;
  options.out = folder / "run";
  std::string said;
  options.say = [&](const std::string& line) { said += line + "\n"; };
  ASSERT_EQ(train(options), Outcome::kFinished);
  EXPECT_THAT(said,
              HasSubstr("; noise diag-fisher (exact) in the weights, radius 0.25 for batches above 16, for 75 %"));
  std::vector<double> norms;
  for (const auto& record : read_metrics(options.out)) {
    if (record["kind"] != "step") continue;
    norms.push_back(record["noise_norm"].get<double>());
    EXPECT_FALSE(record.contains("noise_temperature"));
    // The gradient alone is clipped.
    const double factor = std::min(1.0, 0.5 / record["grad_norm"].get<double>());
    EXPECT_NEAR(record["clip_factor"].get<double>(), factor, 1e-5);
    EXPECT_NEAR(record["temperature"].get<double>(), factor * record["lr"].get<double>() / 0.1 / 64, 1e-6);
  }
  ASSERT_EQ(norms.size(), 4u);
  EXPECT_EQ(norms[0], 0);
  for (const int step : {1, 2}) EXPECT_NEAR(norms[step], 0.25, 1e-5);
  EXPECT_EQ(norms[3], 0);
  options.config.noise.radius = 0;
  options.config.noise.scale.factor = 2;
  options.out = folder / "scaled";
  ASSERT_EQ(train(options), Outcome::kFinished);
  EXPECT_THAT(said, HasSubstr("; noise diag-fisher (exact) in the weights, scale 2 for batch 16, for 75 %"));
}

TEST(WeightNoiseRun, RefusesWhatHasNoMeaning) {
  const auto refused = [](std::vector<std::string> settings, const std::string& why) {
    settings.push_back("noise.structure=isotropic");
    EXPECT_THAT([&] { load_config(std::nullopt, settings); }, ThrowsMessage<Error>(HasSubstr(why)));
  };
  refused({"noise.radius=0.1"}, "noise.radius = 0.1 is the norm of noise in the weights; set noise.placement");
  refused({"noise.placement=gradient", "noise.radius=0.1"}, "noise.radius = 0.1 is the norm of noise in the weights");
  refused({"noise.placement=weights", "noise.scale=match"}, "noise.scale = \"match\" compares temperatures");
  refused({"noise.placement=weights", "noise.radius=1", "noise.scale=2"}, "noise.scale = 2 has no effect");
  refused({"noise.placement=weights", "noise.radius=1", "noise.sigma=0"}, "noise.sigma = 0 gives none");
  refused({"noise.placement=weights", "noise.radius=-1"}, "must be at least 0");
  refused({"noise.placement=weight"}, "must be one of update, gradient, weights");
}

}  // namespace
}  // namespace covnoise
