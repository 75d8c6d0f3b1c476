// The program under common launchers, if they are installed.
#include "covnoise/core/internal/file.h"
#include "covnoise/distributed/launch.h"
#include "distributed/small_training.h"
#include "support/children.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <sstream>

namespace covnoise {
namespace {

using ::testing::HasSubstr;
using testing::Words;

/// The path of an installed program; empty if it is not installed.
std::string installed(const std::string& name) {
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (const auto file = folder + "/" + name; ::access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

class Launchers : public ::testing::Test {
 protected:
  /// Starts the launcher with its own arguments, followed by the program with those of a training into "run".
  testing::Process start(const Words& launcher, int epochs) const {
    Words words = {"/usr/bin/env", "MASTER_PORT=" + std::to_string(free_port())};
    words.insert(words.end(), launcher.begin(), launcher.end());
    words.push_back(testing::program());
    for (const auto& word : testing::training(folder_ / "run", epochs)) words.push_back(word);
    return {words, folder_ / "log"};
  }
  std::string answer(const Words& command) const {
    testing::Process process(command, folder_ / "answer");
    return process.wait() == 0 ? process.output() : "";
  }
  const testing::TemporaryFolder folder_;
};

TEST_F(Launchers, MpirunTrainsInSeveralProcesses) {
  const auto mpirun = installed("mpirun");
  if (mpirun.empty()) GTEST_SKIP() << "mpirun is not installed";
  if (answer({mpirun, "--version"}).find("Open MPI") == std::string::npos) GTEST_SKIP() << "mpirun is not Open MPI's";
  auto process = start({mpirun, "--allow-run-as-root", "--oversubscribe", "-n", "2"}, 1);
  EXPECT_EQ(process.wait(), 0) << process.output();
  EXPECT_THAT(process.output(), ::testing::AllOf(HasSubstr("2 ranks\n"), HasSubstr("test accuracy")));
}

/// With a Slurm of its own, of this machine alone.
TEST_F(Launchers, SrunTrainsInSeveralProcesses) {
  constexpr int kNoSlurm = 77;
  auto process = start({"/bin/bash", (testing::source_dir() / "tests/distributed/slurm.sh").string(),
                        (folder_ / "slurm").string(), "srun", "-n", "2", "--overcommit"},
                       1);
  const int code = process.wait();
  if (code == kNoSlurm) GTEST_SKIP() << process.output();
  EXPECT_EQ(code, 0) << process.output();
  EXPECT_THAT(process.output(), ::testing::AllOf(HasSubstr("2 ranks\n"), HasSubstr("test accuracy")));
}

// All versions know the option names with underscores. Standard output goes to files because torchrun 1.13 under Python
// 3.11 fails otherwise.
TEST_F(Launchers, TorchrunRestartsAfterAKilledRankAndTheTrainingResumes) {
  constexpr int kEpochs = 25;
  const auto torchrun = installed("torchrun");
  if (torchrun.empty()) GTEST_SKIP() << "torchrun is not installed";
  auto process = start({torchrun, "--standalone", "--no_python", "--nproc_per_node", "2", "--max_restarts", "2",
                        "--redirects", "1", "--tee", "1", "--log_dir", (folder_ / "logs").string()},
                       kEpochs);
  const auto run = folder_ / "run";
  ASSERT_TRUE(testing::wait_until([&] { return testing::newest_step(run) > 0 || !process.running(); },
                                  std::chrono::seconds(60)));
  const auto ranks = testing::children_of(process.id());
  ASSERT_EQ(ranks.size(), 2u) << process.output();
  ::kill(ranks.back(), SIGKILL);
  EXPECT_EQ(process.wait(), 0) << process.output();
  EXPECT_THAT(process.output(),
              ::testing::AllOf(HasSubstr("lost rank 1 ("), HasSubstr("resuming "), HasSubstr("test accuracy")));
  EXPECT_EQ(testing::newest_step(run), 2 * kEpochs);
}

}  // namespace
}  // namespace covnoise
