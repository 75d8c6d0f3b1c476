#include "covnoise/core/internal/child_process.h"

#include "covnoise/core/error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <utility>

namespace covnoise {
namespace {

/// What the child could not do, sent to the parent through a pipe.
struct StartFailure {
  enum Stage : int { kGroup, kDeathSignal, kInput, kLog, kProgram } stage;
  int error;
};

/// Everything that the child needs between fork and exec, prepared before the fork: the child of
/// a process with several threads may call async-signal-safe functions only, and so must not allocate memory.
struct Prepared {
  const char* program;
  char* const* arguments;
  char* const* environment;
  const char* log;  ///< nullptr: none
  pid_t parent;
  int report;  ///< write end of the pipe, closed by exec
};

[[noreturn]] void fail(const Prepared& prepared, StartFailure::Stage stage) {
  const StartFailure failure{stage, errno};
  [[maybe_unused]] const auto written = ::write(prepared.report, &failure, sizeof failure);
  ::_exit(127);
}

/// Moves `opened` to `target`; not close-on-exec, since it may be the target itself where that was closed.
bool replace(int target, int opened) {
  return opened >= 0 && ::dup2(opened, target) >= 0 && (opened <= 2 || ::close(opened) == 0);
}

void redirect(const Prepared& prepared) {
  if (!replace(0, ::open("/dev/null", O_RDONLY))) fail(prepared, StartFailure::kInput);
  if (!replace(1, ::open(prepared.log, O_WRONLY | O_CREAT | O_APPEND, 0666)) || ::dup2(1, 2) < 0) {
    fail(prepared, StartFailure::kLog);
  }
}

[[noreturn]] void become(const Prepared& prepared) {
  if (::setpgid(0, 0) != 0) fail(prepared, StartFailure::kGroup);
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) fail(prepared, StartFailure::kDeathSignal);
  if (::getppid() != prepared.parent) ::_exit(127);  // the parent died before the line above
  if (prepared.log) redirect(prepared);
  ::execve(prepared.program, prepared.arguments, prepared.environment);
  fail(prepared, StartFailure::kProgram);
}

std::string find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return name;
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    std::string file = (folder.empty() ? "." : folder) + "/" + name;
    if (::access(file.c_str(), X_OK) == 0) return file;
  }
  throw Error(fmt::format("cannot start {}: not found in $PATH", name));
}

std::vector<std::string> environment_with(const std::vector<std::string>& changes) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry; ++entry) variables.emplace_back(*entry);
  for (const auto& change : changes) {
    const std::string name = change.substr(0, change.find('=') + 1);
    variables.erase(std::remove_if(variables.begin(), variables.end(),
                                   [&](const auto& variable) { return variable.rfind(name, 0) == 0; }),
                    variables.end());
    variables.push_back(change);
  }
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

/// Waits until the pipe is closed by a successful exec, or brings a failure.
std::optional<StartFailure> read_failure(int descriptor) {
  StartFailure failure{};
  ssize_t count;
  do {
    count = ::read(descriptor, &failure, sizeof failure);
  } while (count < 0 && errno == EINTR);
  if (count != static_cast<ssize_t>(sizeof failure)) return std::nullopt;
  return failure;
}

std::string failure_text(const StartFailure& failure, const ChildOptions& options) {
  const std::string reason = std::strerror(failure.error);
  switch (failure.stage) {
    case StartFailure::kLog:
      return fmt::format("cannot write {}: {}", options.log->string(), reason);
    case StartFailure::kInput:
      return fmt::format("cannot start {}: /dev/null: {}", options.arguments[0], reason);
    case StartFailure::kGroup:
      return fmt::format("cannot start {} in a process group of its own: {}", options.arguments[0], reason);
    case StartFailure::kDeathSignal:
      return fmt::format("cannot start {} with a parent-death signal: {}", options.arguments[0], reason);
    default:
      return fmt::format("cannot start {}: {}", options.arguments[0], reason);
  }
}

}  // namespace

ChildProcess::ChildProcess(const ChildOptions& options) {
  const std::string program = find_program(options.arguments.at(0));
  auto words = options.arguments, variables = environment_with(options.environment);
  const auto arguments = pointers_to(words), environment = pointers_to(variables);
  std::array<int, 2> report{};
  require(::pipe2(report.data(), O_CLOEXEC) == 0,
          fmt::format("cannot start {}: {}", options.arguments[0], std::strerror(errno)));
  const Prepared prepared{program.c_str(),    arguments.data(),
                          environment.data(), options.log ? options.log->c_str() : nullptr,
                          ::getpid(),         report[1]};
  pid_ = ::fork();
  if (pid_ == 0) become(prepared);
  const int error = errno;
  ::close(report[1]);
  const auto failure = pid_ > 0 ? read_failure(report[0]) : StartFailure{StartFailure::kProgram, error};
  ::close(report[0]);
  if (!failure) {
    running_ = true;
    return;
  }
  if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
  throw Error(failure_text(*failure, options));
}

ChildProcess::~ChildProcess() {
  if (!running_) return;
  ::kill(-pid_, SIGKILL);  // what it started itself as well
  ::waitpid(pid_, nullptr, 0);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(other.pid_), running_(std::exchange(other.running_, false)) {}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(running_, other.running_);
  return *this;
}

std::optional<int> ChildProcess::poll() {
  int status = 0;
  const pid_t ended = running_ ? ::waitpid(pid_, &status, WNOHANG) : 0;
  if (ended == 0) return std::nullopt;
  running_ = false;
  require(ended == pid_,
          fmt::format("the exit code of process {} is lost: {} (do not ignore SIGCHLD)", pid_, std::strerror(errno)));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void ChildProcess::signal(int number) const {
  if (running_) ::kill(pid_, number);
}

}  // namespace covnoise
