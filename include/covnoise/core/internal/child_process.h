#pragma once
#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace covnoise {

struct ChildOptions {
  std::vector<std::string> arguments;         ///< the program (without a slash: searched in $PATH) and its arguments
  std::vector<std::string> environment = {};  ///< "NAME=value": replaces or extends this process's variables
  /// Standard output and error are appended to this file, and standard input is empty; default: those of this process.
  std::optional<std::filesystem::path> log = {};
};

/// A running program in a process group of its own: an interrupt typed at the terminal reaches this process only, which
/// decides what to pass on. The child is killed when this object is destroyed, and by the kernel when the thread that
/// started it ends for any reason (SIGKILL of this process included).
class ChildProcess {
 public:
  /// Returns once the program runs; an Error says why it does not.
  explicit ChildProcess(const ChildOptions& options);
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  pid_t id() const { return pid_; }
  /// False once poll() has returned an exit code.
  bool running() const { return running_; }
  /// The exit code (128 + the signal for a program ended by one), returned once; nothing while the program runs.
  std::optional<int> poll();
  void signal(int number) const;

 private:
  pid_t pid_ = -1;
  bool running_ = false;
};

}  // namespace covnoise
