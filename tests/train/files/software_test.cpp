#include "covnoise/train/internal/software.h"

#include "covnoise/core/internal/file.h"
#include "covnoise/datasets/catalog.h"
#include "covnoise/train/defaults.h"
#include "covnoise/train/internal/stored_run.h"
#include "covnoise/train/trainer.h"
#include "support/temporary_folder.h"

#include <gtest/gtest.h>

namespace covnoise {
namespace {

using Json = nlohmann::ordered_json;

class Software : public ::testing::Test {
 protected:
  void record(std::optional<std::int64_t> resumed_after) { record_software(run_, "cpu", resumed_after); }
  Json recorded() { return kept_json(run_.software()); }
  /// As if another program had trained the run so far.
  void change(Json& software) {
    software["commit"] = "another";
    write_file_synced(run_.software(), software.dump());
  }

  testing::TemporaryFolder folder_;
  RunFolder run_{folder_.path()};
};

TEST_F(Software, HasWhatARunDependsOn) {
  record(std::nullopt);
  for (const char* key : {"covnoise", "commit", "build", "compiler", "libtorch", "device", "processors"})
    EXPECT_FALSE(recorded().value(key, Json()).is_null()) << key;
  EXPECT_EQ(recorded(), software_versions("cpu"));
  EXPECT_FALSE(recorded().contains("gpu"));
}

TEST_F(Software, OtherSoftwareThatResumesIsAppended) {
  record(std::nullopt);
  record(10);
  EXPECT_FALSE(recorded().contains("resumed")) << "the same software";
  auto software = recorded();
  change(software);
  record(20);
  EXPECT_EQ(recorded()["commit"], "another");
  EXPECT_EQ(recorded()["resumed"], Json::array({{{"step", 20}, {"software", software_versions("cpu")}}}));
  record(30);
  EXPECT_EQ(recorded()["resumed"].size(), 1u);
  record(15);  // a checkpoint before the last one
  EXPECT_EQ(recorded()["resumed"], Json::array({{{"step", 15}, {"software", software_versions("cpu")}}}));
  record(std::nullopt);
  EXPECT_EQ(recorded(), software_versions("cpu")) << "a new run";
}

TEST_F(Software, ARunThatHasNoneIsResumed) {
  record(20);
  EXPECT_EQ(recorded(), Json({{"resumed", Json::array({{{"step", 20}, {"software", software_versions("cpu")}}})}}));
}

TEST_F(Software, TrainingRecordsIt) {
  TrainOptions options;
  options.data = known_data_sets();
  options.config = load_config({}, {"model=mlp", "train.epochs=2", "data.train_limit=256", "data.test_limit=50"});
  resolve_defaults(options.config);
  options.out = folder_.path();
  int steps = 0;
  options.stop_requested = [&] { return ++steps == 2; };
  ASSERT_EQ(train(options), Outcome::kInterrupted);
  EXPECT_EQ(recorded(), software_versions("cpu"));
  auto software = recorded();
  change(software);
  ASSERT_EQ(train(options), Outcome::kFinished);
  EXPECT_EQ(recorded()["resumed"][0]["step"], 2);
  const auto finished = recorded();
  EXPECT_EQ(train(options), Outcome::kFinishedBefore);
  EXPECT_EQ(recorded(), finished);
}

}  // namespace
}  // namespace covnoise
