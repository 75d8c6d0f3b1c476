#include "covnoise/core/internal/child_process.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/file.h"
#include "support/temporary_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

namespace covnoise {
namespace {

using ::testing::HasSubstr;

/// Blocks until the child has ended, without taking its exit code away.
void wait_for(const ChildProcess& child) {
  siginfo_t info = {};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child.id()), &info, WEXITED | WNOWAIT), 0);
}

int code_of(const ChildOptions& options) {
  ChildProcess child(options);
  wait_for(child);
  return child.poll().value_or(-1);
}

std::string error_of(const ChildOptions& options) {
  try {
    const ChildProcess child(options);
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

TEST(ChildProcess, HasItsArgumentsEnvironmentAndLog) {
  const testing::TemporaryFolder folder;
  const auto log = folder / "log";
  ::setenv("COVNOISE_TEST_KEPT", "kept", 1);
  ::setenv("COVNOISE_TEST_SET", "old", 1);
  for (int time = 0; time < 2; ++time) {
    EXPECT_EQ(
        code_of({{"sh", "-c", "cat; echo $1 $COVNOISE_TEST_KEPT; echo $COVNOISE_TEST_SET >&2; exit 3", "sh", "a b"},
                 {"COVNOISE_TEST_SET=new"},
                 log}),
        3);
  }
  EXPECT_EQ(read_file(log), "a b kept\nnew\na b kept\nnew\n");
}

TEST(ChildProcess, IsSignalledAndReportsTheSignalOnce) {
  ChildProcess child({{"sleep", "60"}});
  EXPECT_EQ(child.poll(), std::nullopt);
  EXPECT_EQ(::getpgid(child.id()), child.id());
  child.signal(SIGTERM);
  wait_for(child);
  EXPECT_TRUE(child.running());
  EXPECT_EQ(child.poll(), 128 + SIGTERM);
  EXPECT_FALSE(child.running());
  EXPECT_EQ(child.poll(), std::nullopt);
}

TEST(ChildProcess, SaysWhyItDoesNotStart) {
  const testing::TemporaryFolder folder;
  EXPECT_EQ(error_of({{"covnoise-no-such-program"}}), "cannot start covnoise-no-such-program: not found in $PATH");
  EXPECT_THAT(error_of({{(folder / "none").string()}}), HasSubstr("none: No such file or directory"));
  EXPECT_THAT(error_of({{"sleep", "0"}, {}, folder / "missing" / "log"}),
              HasSubstr("missing/log: No such file or directory"));
}

/// A pipe whose write end other processes inherit: it stays open as long as one of them lives.
class Lifeline {
 public:
  Lifeline() { EXPECT_EQ(::pipe(ends_.data()), 0); }
  ~Lifeline() { ::close(ends_[0]); }
  int write_end() const { return ends_[1]; }
  /// Leaves the write end to the others, and waits for a byte from one of them.
  void wait_for_start() const {
    ::close(ends_[1]);
    char byte = 0;
    ASSERT_EQ(::read(ends_[0], &byte, 1), 1);
  }
  bool closed_within(int milliseconds) const {
    pollfd watched{ends_[0], 0, 0};
    return ::poll(&watched, 1, milliseconds) == 1;
  }

 private:
  std::array<int, 2> ends_{};
};

constexpr int kPatience = 20'000;  // milliseconds; the children below would sleep for 60 s

TEST(ChildProcess, IsKilledWithWhatItStartedWhenDestroyed) {
  const Lifeline lifeline;
  {
    const ChildProcess child({{"sh", "-c", fmt::format("sleep 60 & printf x >&{}; wait", lifeline.write_end())}});
    ASSERT_NO_FATAL_FAILURE(lifeline.wait_for_start());
    EXPECT_FALSE(lifeline.closed_within(0));
  }
  EXPECT_TRUE(lifeline.closed_within(kPatience));
}

TEST(ChildProcess, DiesWithAParentThatIsKilled) {
  const Lifeline lifeline;
  const pid_t parent = ::fork();
  if (parent == 0) {
    const ChildProcess child({{"sleep", "60"}});
    [[maybe_unused]] const auto written = ::write(lifeline.write_end(), "x", 1);
    ::pause();
    ::_exit(0);
  }
  ASSERT_NO_FATAL_FAILURE(lifeline.wait_for_start());
  EXPECT_FALSE(lifeline.closed_within(0));
  ::kill(parent, SIGKILL);
  ASSERT_EQ(::waitpid(parent, nullptr, 0), parent);
  EXPECT_TRUE(lifeline.closed_within(kPatience));
}

}  // namespace
}  // namespace covnoise
