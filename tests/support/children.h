#pragma once
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

namespace covnoise::testing {

/// The processes that the main thread of this one has started.
inline std::vector<pid_t> children_of(pid_t process) {
  const std::string id = std::to_string(process);
  std::ifstream children("/proc/" + id + "/task/" + id + "/children");
  return {std::istream_iterator<pid_t>(children), {}};
}

/// While it exists, this process becomes the parent of grandchildren whose parent has died, so that it can wait for
/// them.
class Subreaper {
 public:
  Subreaper() { EXPECT_EQ(::prctl(PR_SET_CHILD_SUBREAPER, 1), 0); }
  ~Subreaper() { ::prctl(PR_SET_CHILD_SUBREAPER, 0); }
};

/// Waits for the end of such a grandchild.
inline void expect_killed(pid_t process) {
  int status = 0;
  ASSERT_EQ(::waitpid(process, &status, 0), process);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "process " << process << " lived on";
}

}  // namespace covnoise::testing
