// What train() and load_trained() refuse in the folder of an earlier training.
#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/train/internal/checkpoint.h"
#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/internal/run_folder.h"
#include "support/temporary_folder.h"
#include "train/small_run.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace covnoise {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

class Resume : public ::testing::Test {
 protected:
  Resume() { options_.out = run_.root; }
  /// A run of four steps with checkpoints at 2 and 4, or interrupted after the third step.
  void train_once(bool interrupted = false) {
    int steps = 0;
    if (interrupted) options_.stop_requested = [&] { return ++steps == 3; };
    ASSERT_EQ(train(options_), interrupted ? Outcome::kInterrupted : Outcome::kFinished);
    options_.stop_requested = [] { return false; };
  }
  std::string refusal() {
    try {
      train(options_);
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }
  /// Writes the newest checkpoint again, with valid checksums.
  void change_newest(const std::function<void(Checkpoint&)>& change) {
    auto newest = *store_.load_latest([](const std::string& line) { FAIL() << line; });
    change(newest.checkpoint);
    remove_tree(newest.path);
    store_.save(newest.checkpoint, newest.step, newest.scheduled, newest.best_step);
  }
  TrainedModel load(Which which, IfDamaged damaged) {
    return load_trained(
        run_.root, which, options_.data, [&](const std::string& line) { said_ += line + "\n"; }, "cpu", damaged);
  }

  testing::TemporaryFolder folder_;
  RunFolder run_{folder_ / "run"};
  CheckpointStore store_{run_.checkpoints()};
  TrainOptions options_ = testing::small_run("sb", "mlp");
  std::string said_;
};

TEST_F(Resume, RefusesAFinishedRunWithoutCheckpoints) {
  train_once();
  const std::string metrics = read_file(run_.metrics());
  ASSERT_TRUE(remove_tree(run_.checkpoints()));
  EXPECT_THAT(refusal(), HasSubstr("is finished, but its checkpoints are gone"));
  EXPECT_EQ(read_file(run_.metrics()), metrics);
}

/// Its metrics are complete, but the first checkpoint was not yet in place.
TEST_F(Resume, TrainsAgainIfTheFirstSaveWasKilled) {
  options_.config.train.epochs = 1;
  train_once();
  std::filesystem::rename(run_.checkpoints() / "step-00000002", run_.checkpoints() / ".step-00000002.tmp");
  EXPECT_EQ(train(options_), Outcome::kFinished);
}

TEST_F(Resume, RefusesOtherData) {
  train_once(/*interrupted=*/true);
  const auto good = options_.data;
  options_.data = [&](const std::string& name) {
    auto source = good(name);
    source.test.images[0][0][0][0].bitwise_xor_(1);
    return source;
  };
  EXPECT_THAT(refusal(), HasSubstr("was trained on other images or labels"));
  load(Which::kLast, IfDamaged::kRefuse);
  EXPECT_THAT(said_, HasSubstr("was trained on other images or labels"));
  options_.data = good;
  EXPECT_EQ(train(options_), Outcome::kFinished);
}

TEST_F(Resume, RefusesTheConfigurationOfAnotherRun) {
  train_once(/*interrupted=*/true);
  options_.config.seed = 5;
  write_file_synced(run_.config(), to_checked_toml(options_.config));
  EXPECT_THAT(refusal(), AllOf(HasSubstr("is not the configuration of"), HasSubstr("seed: 0 there, 5 here")));
  EXPECT_THAT([&] { load(Which::kLast, IfDamaged::kUseOlder); }, ThrowsMessage<Error>(HasSubstr("seed: 0 there")));
}

TEST_F(Resume, RefusesLostMetrics) {
  train_once(/*interrupted=*/true);
  const std::string text = read_file(run_.metrics());
  write_file_synced(run_.metrics(), text.substr(text.find('\n') + 1));
  EXPECT_THAT(refusal(), HasSubstr("records up to step 3, but its checkpoint counts"));
}

TEST_F(Resume, NamesACheckpointWithoutItsMomentum) {
  train_once(/*interrupted=*/true);
  at::Tensor removed;
  change_newest([&](Checkpoint& checkpoint) {
    removed = checkpoint.optimizer.front().second;
    checkpoint.optimizer.erase(checkpoint.optimizer.begin());
  });
  EXPECT_THAT(refusal(), HasSubstr("step-00000003-interrupted is damaged: optimizer.safetensors has no momentum."));
  change_newest([&](Checkpoint& checkpoint) {
    checkpoint.optimizer.insert(checkpoint.optimizer.begin(), {"momentum.fc1.weight", removed.flatten()});
  });
  EXPECT_THAT(refusal(), HasSubstr("momentum.fc1.weight of shape [401408], not [512, 784]"));
}

/// Steps between sharp ones have larger micro-batches than train.sharpness_batch, which sharpness in every step
/// forbids.
TEST_F(Resume, KnowsHowOftenStepsAreSharp) {
  options_.config.train.sharpness = 0.05;
  options_.config.train.sharpness_batch = 16;
  options_.config.train.sharpness_every = 2;
  train_once(/*interrupted=*/true);
  EXPECT_EQ(load(Which::kLast, IfDamaged::kRefuse).step, 3);
  options_.config.train.sharpness_every = 4;
  EXPECT_THAT(refusal(), HasSubstr("train.sharpness_every: 2 there, 4 here"));
  options_.config.train.sharpness_every = 2;
  options_.config.noise.penalty_every = 3;
  EXPECT_THAT(refusal(), HasSubstr("noise.penalty_every: 1 there, 3 here"));
  options_.config.noise.penalty_every = 1;
  change_newest([](Checkpoint& checkpoint) {  // earlier versions did not record the two keys
    std::string text = checkpoint.state.at("config").get<std::string>();
    for (const std::string line : {"train.sharpness_every = 2\n", "noise.penalty_every = 1\n"}) {
      ASSERT_NE(text.find(line), std::string::npos);
      text.erase(text.find(line), line.size());
    }
    checkpoint.state["config"] = text;
  });
  EXPECT_EQ(train(options_), Outcome::kFinished);
}

/// A checkpoint does not record the number of epochs: a warm-up of more than the default's is not refused.
TEST_F(Resume, KnowsItsNumberOfEpochs) {
  options_.config.train.epochs = 12;
  options_.config.train.warmup = 11;
  train_once(/*interrupted=*/true);
  EXPECT_EQ(load(Which::kLast, IfDamaged::kRefuse).step, 3);
}

TEST_F(Resume, ACheckpointOfAnEarlierVersionIsResumedWithANote) {
  train_once(/*interrupted=*/true);
  change_newest([](Checkpoint& checkpoint) {
    for (const char* key : {"config", "data_sha256", "metrics_records"}) checkpoint.state.erase(key);
  });
  options_.say = [&](const std::string& line) { said_ += line + "\n"; };
  EXPECT_EQ(train(options_), Outcome::kFinished);
  EXPECT_THAT(said_, HasSubstr("is of an earlier version"));
}

/// The best of the two checkpoints, at steps 2 and 4, is the first.
TEST_F(Resume, ADamagedCheckpointIsNotReplacedByAnotherSilently) {
  const auto expect = [&](Which which, const char* damaged, std::int64_t instead) {
    EXPECT_THAT([&] { load(which, IfDamaged::kRefuse); },
                ThrowsMessage<Error>(AllOf(HasSubstr(damaged), HasSubstr("is damaged"), HasSubstr("--allow-older"))));
    said_.clear();
    EXPECT_EQ(load(which, IfDamaged::kUseOlder).step, instead);
    EXPECT_THAT(said_, HasSubstr(damaged));
  };
  train_once();
  EXPECT_EQ(load(Which::kLast, IfDamaged::kRefuse).step, 4);
  ASSERT_EQ(load(Which::kBest, IfDamaged::kRefuse).step, 2);
  const auto best = run_.checkpoints() / "step-00000002/model.safetensors";
  const std::string good = read_file(best);
  write_file_synced(best, "x");
  expect(Which::kBest, "step-00000002", 4);
  write_file_synced(best, good);
  write_file_synced(run_.checkpoints() / "step-00000004/model.safetensors", "x");
  for (const Which which : {Which::kLast, Which::kBest}) expect(which, "step-00000004", 2);
}

}  // namespace
}  // namespace covnoise
