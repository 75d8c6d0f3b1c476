#pragma once
#include "covnoise/core/internal/child_process.h"

#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace covnoise::testing {

/// A child process with its standard output and error in a file of its own.
class Process {
 public:
  Process(const std::vector<std::string>& arguments, const std::filesystem::path& log)
      : log_(log), child_({arguments, {}, emptied(log)}) {}

  int id() const { return child_.id(); }
  void signal(int number) const { child_.signal(number); }
  /// Exit code, or 128 + the signal that ended it.
  int wait() {
    siginfo_t info = {};
    ::waitid(P_PID, static_cast<id_t>(id()), &info, WEXITED | WNOWAIT);
    return child_.poll().value_or(-1);
  }
  bool running() const {
    siginfo_t info = {};
    return ::waitid(P_PID, static_cast<id_t>(id()), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
  }
  std::string output() const {
    std::ifstream file(log_);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

 private:
  static const std::filesystem::path& emptied(const std::filesystem::path& log) {
    std::filesystem::remove(log);
    return log;
  }

  std::filesystem::path log_;
  ChildProcess child_;
};

}  // namespace covnoise::testing
