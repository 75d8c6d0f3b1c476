#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/experiment/internal/paper.h"
#include "covnoise/experiment/sweep.h"
#include "support/temporary_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

namespace covnoise::paper {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::ThrowsMessage;

class GroundTest : public ::testing::Test {
 protected:
  /// A search of f1: two settings of each batch, and further grids.
  void write_search(const std::string& more = "", double clip_norm = 1) {
    write_file_synced(search_, fmt::format(R"(table = "{}"
[set]
model = "f1"
data = {{name = "mnist", holdout = 5000}}
train = {{epochs = 50, warmup = 5, eval_every = 0, eval_train = "never", checkpoint_every = 10}}
noise.stop_after = 0.24
[[grid]]
regime = "lb"
train = {{schedule = "cosine", lr = [0.8, 1.6], clip_norm = {}, weight_decay = 5e-4}}
[[grid]]
regime = "sb"
train = {{schedule = ["cosine", "step"], lr = 0.1, clip_norm = 1.0, weight_decay = 1e-4}}
{})",
                                           (folder_ / "search.csv").string(), clip_norm, more));
  }
  /// Accuracies in the order of the points: lb 0.8, lb 1.6, sb cosine, sb step. Negative: not trained.
  void write_results(const std::vector<double>& accuracies) {
    std::vector<SweepOutcome> outcomes;
    for (const auto& point : sweep_points(read_sweep_file(search_).value().options)) {
      const double accuracy = accuracies.at(outcomes.size());
      outcomes.push_back({point, accuracy < 0 ? 0 : 1, 0, accuracy, 0, 0.5});
    }
    save_sweep(outcomes, folder_.path());
    write_file_synced(folder_ / "search.csv", read_file(folder_ / "sweep.csv"));
  }
  Config config(const std::string& regime) { return load_config(folder_ / "f1.toml", {"regime=" + regime}); }
  void refused(const std::string& why) {
    EXPECT_THAT([&] { write_ground(search_, folder_ / "f1.toml"); }, ThrowsMessage<Error>(HasSubstr(why)));
  }

  testing::TemporaryFolder folder_;
  std::filesystem::path search_ = folder_ / "search.toml";
};

TEST_F(GroundTest, HasTheBestSettingsOfBothBatches) {
  write_search();
  write_results({0.97, 0.98, 0.981, 0.985});
  EXPECT_TRUE(write_ground(search_, folder_ / "f1.toml"));
  const auto lb = config("lb"), sb = config("sb"), change = config("batch-change");
  EXPECT_EQ(lb.train.lr, 1.6);
  EXPECT_EQ(lb.train.schedule, "cosine");
  EXPECT_EQ(lb.train.weight_decay, 5e-4);
  EXPECT_EQ(config("lb-diag").train.lr, 1.6);
  EXPECT_EQ(sb.train.lr, 0.1);
  EXPECT_EQ(sb.train.schedule, "step");
  EXPECT_EQ(sb.train.weight_decay, 1e-4);
  EXPECT_EQ(change.train.lr, 0.1);
  EXPECT_EQ(change.train.batch_schedule.at(0).lr, 1.6);
  const auto matched = config("lb-diag-match").noise;
  EXPECT_EQ(matched.match_lr, 0.1);
  EXPECT_EQ(matched.match_schedule, "step") << "that of sb, which is not that of lb";
  EXPECT_EQ(matched.match_warmup, -1) << "that of both";
  for (const auto& one : {lb, sb}) {
    EXPECT_EQ(one.model, "f1");
    EXPECT_EQ(one.data.name, "mnist");
    EXPECT_EQ(one.data.holdout, 0) << "trained on all examples";
    EXPECT_EQ(one.train.epochs, 50);
    EXPECT_EQ(one.train.warmup, 5);
    EXPECT_EQ(one.train.eval_every, 1);
    EXPECT_EQ(one.train.eval_train, "last");
    EXPECT_EQ(one.train.checkpoint_every, 10);
    EXPECT_EQ(one.noise.stop_after, 0.24);
  }
  EXPECT_THAT(read_file(folder_ / "f1.toml"), HasSubstr("# sb: the best of 2 settings, 98.50 % on held-out examples"));
  EXPECT_FALSE(write_ground(search_, folder_ / "f1.toml")) << "again";
  write_results({0.99, 0.98, 0.981, 0.985});
  refused("f1.toml has other settings");
}

TEST_F(GroundTest, ClipsNoiseApartToFourTimesTheNormOfTheGradient) {
  for (const double clip_norm : {0.5, 0.0}) {
    write_search("", clip_norm);
    write_results({0.97, 0.98, 0.981, 0.985});
    std::filesystem::remove(folder_ / "f1.toml");
    write_ground(search_, folder_ / "f1.toml");
    for (const char* regime : {"lb-diag", "lb-trace", "lb-kfac", "lb-full"})
      EXPECT_EQ(config(regime).noise.clip_norm, 4 * clip_norm) << regime;
    for (const char* regime : {"sb", "lb", "batch-change", "lb-diag-match", "lb-multiplicative"})
      EXPECT_EQ(config(regime).noise.clip_norm, 0) << regime;
  }
  EXPECT_THAT(read_file(folder_ / "f1.toml"), Not(HasSubstr("noise.clip_norm"))) << "where the gradient is not clipped";
}

TEST_F(GroundTest, IsNotWrittenFromAnIncompleteOrUnequalSearch) {
  write_search();
  refused("there is no table");
  write_results({0.97, -1, 0.981, 0.985});
  refused("1 of 4 settings are not trained yet");
  write_search("[[grid]]\nregime = \"sb\"\ntrain = {schedule = \"cosine\", lr = 0.2}\n");
  write_results({0.97, 0.98, 0.981, 0.985, 0.97});
  refused("3 settings of sb and 2 of lb");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "f1.toml"));
}

}  // namespace
}  // namespace covnoise::paper
