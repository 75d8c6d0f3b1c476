// The program as a user sees it: a process with its exit code, output and files.
#include "support/program.h"
#include "covnoise/core/internal/digest.h"
#include "covnoise/core/internal/file.h"
#include "covnoise/train/config.h"
#include "covnoise/train/internal/metrics.h"
#include "covnoise/train/regimes.h"
#include "support/paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>

namespace covnoise {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

class ProgramTest : public testing::ProgramFixture {
 protected:
  /// A run of a few seconds: 3 epochs of 12 steps, a checkpoint per epoch, noise with a refresh of 7.
  std::vector<std::string> short_training(const fs::path& out) {
    return {"train",
            "--model",
            "mlp",
            "--data",
            "glyphs",
            "--regime",
            "lb-diag",
            "--epochs",
            "3",
            "--threads",
            "1",
            "--out",
            out.string(),
            "--set",
            "data.train_limit=3072",
            "--set",
            "data.test_limit=500",
            "--set",
            "train.batch=256",
            "--set",
            "noise.stop_after=0.8",
            "--set",
            "noise.refresh=7",
            "--set",
            "train.log_every=1"};
  }
};

std::map<std::string, std::string> hashes(const fs::path& root) {
  std::map<std::string, std::string> result;
  for (const auto& item : fs::recursive_directory_iterator(root)) {
    if (item.is_regular_file()) result[fs::relative(item.path(), root).string()] = sha256_hex_of_file(item.path());
  }
  return result;
}

/// Metric lines without times.
std::vector<std::string> timeless_metrics(const fs::path& run) {
  std::vector<std::string> lines;
  for (auto record : read_metrics(run)) {
    record.erase("seconds");
    record.erase("images_per_s");
    lines.push_back(record.dump());
  }
  return lines;
}

TEST_F(ProgramTest, PrintsItsVersionAndBuild) {
  EXPECT_THAT(run({"--version"}).output, HasSubstr("covnoise 0."));
  const auto info = run({"info", "--data-dir", "/some/where"});
  EXPECT_EQ(info.code, 0);
  for (const char* part : {"LibTorch", "commit"}) EXPECT_THAT(info.output, HasSubstr(part));
  EXPECT_THAT(info.output, HasSubstr("/some/where"));
}

TEST_F(ProgramTest, MistakesGetOneLineAndANonZeroExit) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"train", "--modle", "lenet"}, "--modle (see covnoise train --help)"},
      {{"data", "fetch"}, "(see covnoise data fetch --help)"},
      {{"frobnicate"}, "frobnicate (see covnoise --help)"},
      {{"train", "--model", "lennet"}, "lenet"},
      {{"train", "--set", "train.lrr=1"}, "train.lrr"},
      {{"train", "--data", "nothing"}, "glyphs"},
      {{"train", "--data", "mnist", "--data-dir", "/nonexistent"}, "covnoise data fetch mnist"},
      {{"train", "/no/such/recipe.toml"}, "/no/such/recipe.toml"},
      {{"train", "--model", "f1", "--batch", "200", "--set", "train.ghost_batch=128"}, "ghost"},
      {{"train", "--model", "f1", "--batch", "512", "--set", "train.micro_batch=100"}, "micro_batch"},
      {{"train", "--epochs", "-3"}, "epochs"},
      {{"train", "--device", "cuda:99"}, "cuda:99"},
      {{"train", "--resume", "/no/run"}, "/no/run"},
      {{"eval", "/no/run"}, "/no/run"},
      {{"runs", "/no/runs"}, "/no/runs"},
      {{"data", "verify", "unknown"}, "unknown"},
      {{"sweep", "--model", "mlp", "--vary", "seed=0,0", "--plan"}, "--vary seed=0,0: 0 twice"},
      {{"paper", "table2", "--seeds", "0-1,1", "--plan"}, "seed 1 twice"},
      {{"paper", "table2", "--seeds", "", "--plan"}, "--seeds : must be seeds"},
  };
  for (const auto& [arguments, expected] : cases) {
    const auto result = run(arguments);
    EXPECT_NE(result.code, 0) << expected;
    EXPECT_THAT(result.output, HasSubstr(expected));
    EXPECT_EQ(std::count(result.output.begin(), result.output.end(), '\n'), 1) << result.output;
  }
}

TEST_F(ProgramTest, SaysThatItsOutputCouldNotBeWritten) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  for (const char* arguments : {"regimes", "--help", "train --help-keys"}) {
    testing::Process process({"sh", "-c", testing::program() + " " + arguments + " >/dev/full"}, folder_ / "full");
    EXPECT_EQ(process.wait(), 1) << arguments;
    EXPECT_EQ(process.output(), "covnoise: not everything could be written to standard output\n");
  }
}

TEST_F(ProgramTest, ListsTheRegimesWithTheirKeys) {
  const auto [code, output] = run({"regimes"});
  EXPECT_EQ(code, 0);
  EXPECT_EQ(static_cast<std::size_t>(std::count(output.begin(), output.end(), '\n')), regime_names().size());
  for (const auto& name : regime_names()) {
    EXPECT_THAT("\n" + output, HasSubstr("\n" + name + " "));
    EXPECT_THAT(output, HasSubstr(std::string(regime_summary(name))));
  }
  EXPECT_THAT(output, HasSubstr("noise.structure = 'diag-fisher'"));
}

TEST_F(ProgramTest, DryRunPrintsTheResolvedConfigurationAndWritesNothing) {
  const auto result =
      run({"train", "--dry-run", "--model", "resnet20", "--regime", "lb-diag", "--out", (folder_ / "r").string()});
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.output, HasSubstr("estimator = \"ghost\""));
  EXPECT_THAT(result.output, HasSubstr("lr = 1.6"));
  EXPECT_FALSE(fs::exists(folder_ / "r"));
}

TEST_F(ProgramTest, TrainsEvaluatesAndKnowsAFinishedRun) {
  const auto out = folder_ / "run";
  const auto first = run(short_training(out));
  ASSERT_EQ(first.code, 0) << first.output;
  EXPECT_THAT(first.output, HasSubstr("test accuracy"));
  for (const char* file : {"config.toml", "metrics.jsonl", "metrics.csv"}) EXPECT_TRUE(fs::exists(out / file)) << file;
  const auto before = hashes(out);
  const auto again = run(short_training(out));
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.output, HasSubstr("is already finished"));
  EXPECT_EQ(hashes(out), before);
  const auto evaluation = run({"eval", out.string(), "--json"});
  const auto last = read_metrics(out).back();
  EXPECT_EQ(nlohmann::json::parse(evaluation.output)["accuracy"].get<double>(), last["test_accuracy"].get<double>());
  EXPECT_THAT(run({"runs", folder_.path().string()}).output, HasSubstr("lb-diag"));
  write_file_synced(out / "checkpoints" / "step-00000036" / "model.safetensors", "x");
  expect_one_line({"eval", out.string()}, "model.safetensors does not match its checksum; --allow-older uses");
  const auto older = run({"eval", out.string(), "--allow-older"});
  EXPECT_EQ(older.code, 0);
  EXPECT_THAT(older.output, HasSubstr("step 24)"));
}

/// The average of the weights is what is saved.
TEST_F(ProgramTest, EvaluatesTheAveragedWeights) {
  const auto out = folder_ / "run";
  auto arguments = short_training(out);
  arguments.insert(arguments.end(), {"--set", "train.ema=0.9"});
  ASSERT_EQ(run(arguments).code, 0);
  const auto evaluation = nlohmann::json::parse(run({"eval", out.string(), "--json"}).output);
  const auto last = read_metrics(out).back();
  EXPECT_EQ(evaluation["accuracy"].get<double>(), last["test_accuracy"].get<double>());
  EXPECT_NEAR(evaluation["loss"].get<double>(), last["test_loss"].get<double>(), 1e-6);
}

TEST_F(ProgramTest, SeveralSeedsTrainInParallelAndAreNotRepeated) {
  auto arguments = short_training(folder_ / "seeds");
  arguments.insert(arguments.end(), {"--seeds", "0,3"});
  const auto first = run(arguments);
  EXPECT_EQ(first.code, 0) << first.output;
  EXPECT_THAT(first.output, HasSubstr("standard deviation of 2 seeds"));
  for (const char* name : {"mlp-glyphs-lb-diag-b256-e3-s0", "mlp-glyphs-lb-diag-b256-e3-s3"})
    EXPECT_TRUE(fs::exists(folder_ / "seeds" / "runs" / name / "metrics.jsonl")) << name;
  EXPECT_THAT(run(arguments).output, HasSubstr("2 of 2 runs were already finished"));
}

TEST_F(ProgramTest, RefusesAnotherConfigurationInTheSameFolder) {
  const auto out = folder_ / "run";
  ASSERT_EQ(run(short_training(out)).code, 0);
  auto other = short_training(out);
  other.insert(other.end(), {"--set", "train.lr=0.5"});
  const auto result = run(other);
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.output, HasSubstr("train.lr"));
}

TEST_F(ProgramTest, AnUnwritableFolderGetsOneLine) {
  std::ofstream(folder_ / "file") << "in the way";
  const auto result = run(short_training(folder_ / "file" / "run"));
  EXPECT_NE(result.code, 0);
  EXPECT_THAT(result.output, HasSubstr((folder_ / "file").string()));
}

TEST_F(ProgramTest, ADivergedRunNamesTheLayer) {
  auto arguments = short_training(folder_ / "run");
  arguments.insert(arguments.end(), {"--set", "train.lr=1e30"});
  const auto result = run(arguments);
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.output, HasSubstr("not finite at step"));
  const auto last = read_metrics(folder_ / "run").back();
  EXPECT_EQ(last["kind"], "diverged");
  EXPECT_THAT(last["message"].get<std::string>(), HasSubstr("not finite at step"));
  // Resuming from the last checkpoint, or from the start, removes the record before the run diverges again.
  EXPECT_EQ(run(arguments).code, 3);
  int diverged = 0;
  for (const auto& record : read_metrics(folder_ / "run")) diverged += record["kind"] == "diverged" ? 1 : 0;
  EXPECT_EQ(diverged, 1);
}

/// Waits for `ready` or the end of the process.
template <class Ready>
void wait_for(const testing::Process& process, const Ready& ready) {
  while (process.running() && !ready()) ::usleep(200);
}

std::size_t metric_lines(const fs::path& run) {
  std::ifstream file(run / "metrics.jsonl");
  return static_cast<std::size_t>(std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
}

class InterruptTest : public ProgramTest {
 protected:
  void SetUp() override {
    ASSERT_EQ(run(short_training(folder_ / "calm")).code, 0);
    expected_ = hashes(folder_ / "calm" / "checkpoints");
    metrics_ = timeless_metrics(folder_ / "calm");
  }
  void expect_same(const fs::path& out) const {
    EXPECT_EQ(hashes(out / "checkpoints"), expected_);
    EXPECT_EQ(timeless_metrics(out), metrics_);
  }
  std::unique_ptr<testing::Process> start(const fs::path& out) {
    auto arguments = short_training(out);
    arguments.insert(arguments.begin(), testing::program());
    return std::make_unique<testing::Process>(arguments, folder_ / "killed.log");
  }
  /// The output of a run that was sent `signal` after so many lines of its metrics.
  std::string interrupt(const fs::path& out, std::size_t lines, int signal) {
    const auto process = start(out);
    wait_for(*process, [&] { return metric_lines(out) > lines; });
    process->signal(signal);
    EXPECT_EQ(process->wait(), 128 + signal) << "it ended before it was interrupted";
    return process->output();
  }
  static void pause(double seconds) { ::usleep(static_cast<useconds_t>(seconds * 1e6)); }

  std::map<std::string, std::string> expected_;
  std::vector<std::string> metrics_;
};

bool saving(const fs::path& run) {
  std::error_code gone;
  for (fs::directory_iterator it(run / "checkpoints", gone), end; it != end; it.increment(gone)) {
    if (gone) return false;
    if (it->path().filename().string().rfind("step-", 0) != 0)
      return true;  // a temporary folder: a checkpoint is being written
  }
  return false;
}

/// Kill -9 at 20 random moments, 5 of them during a save; the command is then repeated until the run is finished.
TEST_F(InterruptTest, KilledRunsEndWithTheSameBytes) {
  std::mt19937 random(1);
  std::uniform_int_distribution<std::size_t> line(0, metrics_.size() - 2);
  for (int kill = 0; kill < 20; ++kill) {
    const auto out = folder_ / ("killed-" + std::to_string(kill));
    const auto process = start(out);
    const std::size_t lines = line(random);
    if (kill < 5) {
      wait_for(*process, [&] { return saving(out); });
    } else {
      wait_for(*process, [&] { return metric_lines(out) > lines; });
      pause(std::uniform_real_distribution<double>(0, 0.01)(random));
    }
    process->signal(SIGKILL);
    EXPECT_EQ(process->wait(), 128 + SIGKILL) << "it ended before it was killed";
    const auto resumed = run(short_training(out));
    ASSERT_EQ(resumed.code, 0) << resumed.output;
    expect_same(out);
    remove_tree(out);
  }
}

TEST_F(InterruptTest, SignalsWriteACheckpointAndExitAsShellsExpect) {
  for (const int signal : {SIGINT, SIGTERM}) {
    const auto out = folder_ / ("signal-" + std::to_string(signal));
    EXPECT_THAT(interrupt(out, 15, signal), HasSubstr("--resume"));
    const auto resumed = run({"train", "--resume", out.string()});
    EXPECT_EQ(resumed.code, 0) << resumed.output;
    expect_same(out);
  }
}

/// A run started on a GPU is resumed on a machine without one if the command says so; config.toml does not change.
TEST_F(InterruptTest, ResumeTakesTheDeviceOfTheCommand) {
  const auto out = folder_ / "moved";
  interrupt(out, 15, SIGINT);
  const std::string config = to_checked_toml(read_config(out / "config.toml", {"run.device=cuda:99"}));
  write_file_synced(out / "config.toml", config);
  expect_one_line({"train", "--resume", out.string()}, "cuda:99");
  expect_one_line({"train", "--resume", out.string(), "--set", "train.lr=1"}, "leave out train.lr=1");
  expect_one_line({"train", "--resume", out.string(), "--threads", "-1"}, "run.threads");
  const auto resumed = run({"train", "--resume", out.string(), "--device", "cpu"});
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  expect_same(out);
  EXPECT_EQ(read_file(out / "config.toml"), config);
}

TEST_F(InterruptTest, ADamagedCheckpointIsSkipped) {
  const auto out = folder_ / "damaged";
  interrupt(out, 28, SIGKILL);
  std::vector<fs::path> checkpoints;
  for (const auto& item : fs::directory_iterator(out / "checkpoints")) checkpoints.push_back(item.path());
  std::sort(checkpoints.begin(), checkpoints.end());
  ASSERT_GE(checkpoints.size(), 2u);
  std::fstream(checkpoints.back() / "model.safetensors", std::ios::in | std::ios::out).seekp(5000).put('x');
  const auto resumed = run(short_training(out));
  EXPECT_EQ(resumed.code, 0) << resumed.output;
  EXPECT_THAT(resumed.output, HasSubstr(checkpoints.back().filename().string()));
  expect_same(out);
}

}  // namespace
}  // namespace covnoise
