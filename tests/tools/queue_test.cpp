#include "covnoise/core/internal/file.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/temporary_folder.h"
#include "support/wait_until.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

namespace covnoise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

constexpr const char* kProgram = R"sh(#!/bin/sh
cd "$(dirname "$0")" && echo "$*" >> started
wait_for() { for i in $(seq 300); do $1 && exit 0; sleep 0.1; done; exit 4; }
both_met() { test "$(ls met-* | wc -l)" = 2; }
case "$*" in
  *fail*) exit 3 ;;
  *interrupted*) exit 130 ;;
  *meet*) touch "met-$3"; wait_for both_met ;;
  *stay*) trap 'echo stopped >> started; exit 143' TERM; touch "met-$3"; wait_for false ;;
esac
)sh";

/// script/queue with a program that writes its arguments down. It fails where they have "fail"; with "meet NAME" it
/// waits until another one has met it, with "stay" until a signal ends it.
class QueueScript : public ::testing::Test {
 protected:
  struct Result {
    int code;
    std::vector<std::string> started;  ///< the arguments of each command
    std::string output;
  };

  testing::Process start(const std::string& list, const std::string& minutes) {
    const auto program = folder_ / "program", file = folder_ / "list";
    write_file_synced(program, kProgram);
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    write_file_synced(file, list);
    write_file_synced(folder_ / "started", "");
    return testing::Process({"env", "COVNOISE=" + program.string(), (testing::source_dir() / "script/queue").string(),
                             file.string(), minutes, "--device", "cuda"},
                            folder_ / "log");
  }
  Result end_of(testing::Process&& process) {
    Result result{process.wait(), {}, process.output()};
    std::istringstream lines(read_file(folder_ / "started"));
    for (std::string line; std::getline(lines, line);) result.started.push_back(line);
    return result;
  }
  Result run(const std::string& list, const std::string& minutes) { return end_of(start(list, minutes)); }

  testing::TemporaryFolder folder_;
};

TEST_F(QueueScript, GivesTheTimeLeftToCommandsThatTrain) {
  const auto result =
      run("# a comment\n\npaper table2 --rows a  # the first\nsweep s.toml --collect\npaper ground s.toml r.toml\n"
          "sweep s.toml",
          "2");
  EXPECT_EQ(result.code, 0) << result.output;
  EXPECT_THAT(result.started, ElementsAre(MatchesRegex("paper table2 --rows a --device cuda --minutes (2.00|1.9.)"),
                                          "sweep s.toml --collect --device cuda", "paper ground s.toml r.toml",
                                          MatchesRegex("sweep s.toml --device cuda --minutes (2.00|1.9.)")));
}

TEST_F(QueueScript, CollectsButStartsNothingWithoutTime) {
  const auto result = run("sweep s.toml\npaper table2 --collect\n", "0.1");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.started, ElementsAre("paper table2 --collect --device cuda"));
  EXPECT_THAT(result.output, HasSubstr("no time left for: sweep s.toml\n"));
}

TEST_F(QueueScript, AFailureDoesNotStopTheOthersAndAnInterruptDoes) {
  const auto failed = run("paper fail\npaper table2\n", "2");
  EXPECT_EQ(failed.code, 1);
  EXPECT_EQ(failed.started.size(), 2u);
  EXPECT_THAT(failed.output, HasSubstr("exit code 3: paper fail"));
  const auto interrupted = run("paper interrupted\npaper table2\n", "2");
  EXPECT_EQ(interrupted.code, 130);
  EXPECT_EQ(interrupted.started.size(), 1u);
}

TEST_F(QueueScript, StartsALineWithAnAmpersandTogetherWithTheNext) {
  const auto result = run("paper meet a &\npaper meet b\npaper fail & # the last line\n", "2");
  EXPECT_EQ(result.code, 1) << result.output;
  EXPECT_EQ(result.started.size(), 3u);
  EXPECT_THAT(result.output, HasSubstr("exit code 3: paper fail\n")) << "also waited for";
  EXPECT_THAT(result.output, ::testing::Not(HasSubstr("exit code 4")));
}

TEST_F(QueueScript, PassesASignalOnAndWaitsForItsCommands) {
  auto process = start("paper stay a &\npaper stay b\npaper table2\n", "2");
  const auto met = [&](const char* name) { return std::filesystem::exists(folder_ / name); };
  ASSERT_TRUE(testing::wait_until([&] { return met("met-a") && met("met-b"); }, std::chrono::seconds(20)));
  process.signal(SIGTERM);
  const auto result = end_of(std::move(process));
  EXPECT_EQ(result.code, 143) << result.output;
  EXPECT_EQ(std::count(result.started.begin(), result.started.end(), "stopped"), 2);
  EXPECT_EQ(result.started.size(), 4u) << "the third is not started";
}

TEST_F(QueueScript, RefusesWhatIsNoTime) {
  const auto result = run("paper table2\n", "soon");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.output, "script/queue: 'soon' is not a number of minutes\n");
  EXPECT_TRUE(result.started.empty());
}

}  // namespace
}  // namespace covnoise
