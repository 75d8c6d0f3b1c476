// covnoise launch: ranks that never meet.
#include "covnoise/distributed/launch.h"

#include "distributed/small_training.h"
#include "distributed/socket.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace covnoise {
namespace {

using ::testing::HasSubstr;
using testing::training;
using testing::wait_until;
using testing::Words;

/// Rank 1 dies before it has met rank 0, which would wait for ten minutes.
TEST(Launch, EndsRanksThatWaitForOneThatDied) {
  const testing::TemporaryFolder folder;
  LaunchOptions options;
  options.processes = 2;
  options.command = {"/bin/sh", "-c", "[ $RANK = 1 ] && exit 9; exec \"$0\" \"$@\" 2> " + (folder / "log").string(),
                     testing::program()};
  for (const auto& word : training(folder / "run", 1, /*timeout=*/600)) options.command.push_back(word);
  std::vector<std::string> said;
  std::chrono::steady_clock::time_point died;
  options.say = [&](const std::string& line) {
    if (said.empty()) died = std::chrono::steady_clock::now();
    said.push_back(line);
  };
  EXPECT_EQ(launch(options), 9);
  EXPECT_LT(std::chrono::steady_clock::now() - died, std::chrono::seconds(5));
  EXPECT_THAT(said, ::testing::ElementsAre(HasSubstr("failed with exit code 9"), HasSubstr("killed the ranks that")));
}

TEST(Launch, WaitingForAnotherMachineCanBeInterrupted) {
  const testing::TemporaryFolder folder;
  const int port = free_port();
  Words words = {testing::program(), "launch", "--nnodes", "2", "--port", std::to_string(port)};
  for (const auto& word : training(folder / "run", 1, /*timeout=*/600)) words.push_back(word);
  testing::Process process(words, folder / "log");
  std::string why;
  const Wait wait(std::chrono::seconds(60), [] {});
  ASSERT_TRUE(wait_until([&] { return connect_to("127.0.0.1", port, wait, why).is_open(); }, std::chrono::seconds(60)));
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), 128 + SIGINT);
  EXPECT_THAT(process.output(), ::testing::AllOf(HasSubstr("passing the signal on to the ranks"),
                                                 HasSubstr("interrupted while waiting for the other ranks")));
}

}  // namespace
}  // namespace covnoise
