// Signals to the program: what it answers, when it stops, and what is left.
#include "covnoise/core/internal/file.h"
#include "covnoise/train/internal/checkpoint.h"
#include "covnoise/train/internal/metrics.h"
#include "support/children.h"
#include "support/paths.h"
#include "support/program.h"
#include "support/wait_until.h"

namespace covnoise {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::wait_until;
constexpr std::chrono::seconds kLong(120);

class Interrupt : public testing::ProgramFixture {
 protected:
  Interrupt() { std::signal(SIGHUP, SIG_DFL); }  // whatever started the tests

  testing::Process start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), testing::program());
    return {arguments, folder_ / "log"};
  }
  /// One step of this training takes minutes: 5000 micro-batches.
  std::vector<std::string> long_step() const {
    return {"train",
            "--model=resnet20",
            "--data=glyphs",
            "--threads=1",
            "--epochs=9",
            "--set=train.batch=10000",
            "--set=train.lr=0.1",
            "--set=train.ghost_batch=2",
            "--set=train.warmup=0",
            "--set=train.micro_batch=2",
            "--out=" + (folder_ / "run").string()};
  }
  /// 64 short steps an epoch.
  std::vector<std::string> short_steps() const {
    return {"train",
            "--model=mlp",
            "--data=glyphs",
            "--threads=1",
            "--epochs=500",
            "--regime=sb",
            "--set=train.batch=16",
            "--set=data.train_limit=1024",
            "--set=data.test_limit=10",
            "--out=" + (folder_ / "run").string()};
  }
  static bool says(const testing::Process& process, const std::string& text) {
    return process.output().find(text) != std::string::npos;
  }
  /// Waits for the first line of the training, sends the signal, and waits for the answer.
  static void interrupt(const testing::Process& process, int signal) {
    ASSERT_TRUE(wait_until([&] { return says(process, "parameters, ") || !process.running(); }, kLong));
    process.signal(signal);
    ASSERT_TRUE(wait_until([&] { return says(process, "stopping after this step"); }, kLong)) << process.output();
  }
  /// The second signal.
  static void interrupt_again(const testing::Process& process) {
    const auto answered = [&] {
      if (says(process, "stopping within") || says(process, "stopping runs within")) return true;
      process.signal(SIGINT);  // ignored if it comes too soon after the first
      return false;
    };
    ASSERT_TRUE(wait_until(answered, kLong)) << process.output();
  }
};

TEST_F(Interrupt, IsAnsweredAtOnceAndTheSecondOneStopsWithinTheStep) {
  auto process = start(long_step());
  ASSERT_NO_FATAL_FAILURE(interrupt(process, SIGINT));
  EXPECT_TRUE(process.running());
  ASSERT_NO_FATAL_FAILURE(interrupt_again(process));
  EXPECT_EQ(process.wait(), 128 + SIGINT);
  EXPECT_THAT(process.output(), HasSubstr("stopped within a step; to resume from the last checkpoint, repeat"));
  EXPECT_TRUE(CheckpointStore(folder_ / "run" / "checkpoints").list().empty());
}

TEST_F(Interrupt, OfTwoKindsOrTwiceTogetherIsOne) {
  auto process = start(short_steps());
  ASSERT_TRUE(wait_until([&] { return says(process, "parameters, "); }, kLong)) << process.output();
  for (const int signal : {SIGTERM, SIGTERM, SIGINT}) process.signal(signal);
  const int code = process.wait();
  EXPECT_TRUE(code == 128 + SIGTERM || code == 128 + SIGINT) << code;
  EXPECT_THAT(process.output(),
              AllOf(HasSubstr("covnoise: interrupted; to resume"), Not(HasSubstr("within this step"))));
  EXPECT_EQ(CheckpointStore(folder_ / "run" / "checkpoints").list().size(), 1u);
}

TEST_F(Interrupt, AClosedTerminalIsOneUnlessNohupIgnoresIt) {
  for (const bool ignored : {false, true}) {
    std::signal(SIGHUP, ignored ? SIG_IGN : SIG_DFL);
    auto process = start(short_steps());
    std::signal(SIGHUP, SIG_DFL);
    ASSERT_TRUE(wait_until([&] { return says(process, "parameters, "); }, kLong)) << process.output();
    process.signal(SIGHUP);
    if (ignored) {
      ASSERT_NO_FATAL_FAILURE(interrupt(process, SIGTERM));
    }
    EXPECT_EQ(process.wait(), 128 + (ignored ? SIGTERM : SIGHUP)) << process.output();
    EXPECT_THAT(process.output(), HasSubstr("interrupted; to resume"));
  }
}

class SweepInterrupt : public Interrupt {
 protected:
  std::vector<std::string> sweep(const std::string& epochs) const {
    return {"sweep",
            "--set",
            "data=glyphs",
            "--set",
            "model=mlp",
            "--set",
            "train.epochs=" + epochs,
            "--set",
            "train.batch=16",
            "--set",
            "data.train_limit=1024",
            "--set",
            "data.test_limit=10",
            "--vary",
            "train.lr=0.01",
            "--out",
            (folder_ / "sweep").string()};
  }
  std::filesystem::path run_folder() const { return folder_ / "sweep" / "runs" / "lr0.01"; }
};

TEST_F(SweepInterrupt, KilledItLeavesNoRunBehindAndCanBeRepeatedAtOnce) {
  const testing::Subreaper subreaper;
  auto process = start(sweep("10"));
  ASSERT_TRUE(wait_until([&] { return !CheckpointStore(run_folder() / "checkpoints").list().empty(); }, kLong));
  const auto runs = testing::children_of(process.id());
  ASSERT_EQ(runs.size(), 1u) << process.output();
  process.signal(SIGKILL);
  EXPECT_EQ(process.wait(), 128 + SIGKILL);
  auto repeated = start(sweep("10"));
  testing::expect_killed(runs[0]);
  EXPECT_EQ(repeated.wait(), 0) << repeated.output();
  EXPECT_THAT(read_file(folder_ / "sweep" / "logs" / (run_folder().filename().string() + ".log")),
              HasSubstr("resuming "))
      << "from its checkpoint, not from the start";
}

TEST_F(SweepInterrupt, PassesBothSignalsOn) {
  std::vector<std::string> words = {"sweep",
                                    "--set=model=resnet20",
                                    "--set=data=glyphs",
                                    "--set=train.epochs=9",
                                    "--set=train.batch=10000",
                                    "--set=train.ghost_batch=2",
                                    "--set=train.micro_batch=2",
                                    "--set=train.warmup=0",
                                    "--vary=train.lr=0.01",
                                    "--out=" + (folder_ / "sweep").string()};
  auto process = start(words);
  const auto log = folder_ / "sweep" / "logs" / "lr0.01.log";
  const auto in_its_step = [&] {
    return std::filesystem::exists(log) && read_file(log).find("parameters, ") != std::string::npos;
  };
  ASSERT_TRUE(wait_until(in_its_step, kLong)) << process.output();
  process.signal(SIGINT);
  ASSERT_TRUE(wait_until([&] { return read_file(log).find("stopping after this step") != std::string::npos; }, kLong));
  EXPECT_THAT(process.output(), HasSubstr("stopping runs after their current step"));
  ASSERT_NO_FATAL_FAILURE(interrupt_again(process));
  EXPECT_EQ(process.wait(), 128 + SIGINT);
  EXPECT_THAT(process.output(), HasSubstr("interrupted with 1 of 1 runs left"));
  EXPECT_THAT(read_file(log), HasSubstr("stopped within a step"));
}

}  // namespace
}  // namespace covnoise
