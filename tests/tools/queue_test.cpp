#include "covnoise/core/internal/file.h"
#include "support/paths.h"
#include "support/process.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace covnoise {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

/// script/queue with a program that writes its arguments down; it fails where they have "fail".
class QueueScript : public ::testing::Test {
 protected:
  struct Result {
    int code;
    std::vector<std::string> started;  ///< the arguments of each command
    std::string output;
  };

  Result run(const std::string& list, const std::string& minutes) {
    const auto program = folder_ / "program", file = folder_ / "list";
    write_file_synced(program, "#!/bin/sh\necho \"$*\" >> " + (folder_ / "started").string() +
                                   "\ncase \"$*\" in *fail*) exit 3;; *interrupted*) exit 130;; esac\n");
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    write_file_synced(file, list);
    write_file_synced(folder_ / "started", "");
    testing::Process process({"env", "COVNOISE=" + program.string(), (testing::source_dir() / "script/queue").string(),
                              file.string(), minutes, "--device", "cuda"},
                             folder_ / "log");
    Result result{process.wait(), {}, process.output()};
    std::istringstream lines(read_file(folder_ / "started"));
    for (std::string line; std::getline(lines, line);) result.started.push_back(line);
    return result;
  }
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

TEST_F(QueueScript, RefusesWhatIsNoTime) {
  const auto result = run("paper table2\n", "soon");
  EXPECT_EQ(result.code, 2);
  EXPECT_EQ(result.output, "script/queue: 'soon' is not a number of minutes\n");
  EXPECT_TRUE(result.started.empty());
}

}  // namespace
}  // namespace covnoise
