#include "covnoise/distributed/launch.h"

#include "covnoise/core/error.h"
#include "covnoise/core/threads.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <thread>

namespace covnoise {
namespace {

using LaunchClock = std::chrono::steady_clock;

struct Started {
  int rank;
  pid_t pid;
  bool running = true;
};

std::vector<std::string> environment_of(const LaunchOptions& options, int port, int local_rank) {
  std::vector<std::string> variables;
  for (char** entry = environ; *entry; ++entry) variables.emplace_back(*entry);
  const auto set = [&](const std::string& name, const std::string& value) {
    variables.erase(std::remove_if(variables.begin(), variables.end(),
                                   [&](const auto& entry) { return entry.rfind(name + "=", 0) == 0; }),
                    variables.end());
    variables.push_back(name + "=" + value);
  };
  set("RANK", std::to_string(options.machine * options.processes + local_rank));
  set("WORLD_SIZE", std::to_string(options.machines * options.processes));
  set("LOCAL_RANK", std::to_string(local_rank));
  set("LOCAL_WORLD_SIZE", std::to_string(options.processes));
  set("MASTER_ADDR", options.address);
  set("MASTER_PORT", std::to_string(port));
  if (!std::getenv("OMP_NUM_THREADS"))
    set("OMP_NUM_THREADS", std::to_string(std::max(1, available_processors() / options.processes)));
  return variables;
}

std::vector<char*> pointers_to(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

Started start_rank(const LaunchOptions& options, int port, int local_rank) {
  auto words = options.command, variables = environment_of(options, port, local_rank);
  pid_t pid = -1;
  // In a group of its own: a terminal's interrupt reaches it once, by us, and not a second time, which would kill it.
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const int failed = ::posix_spawnp(&pid, words[0].c_str(), nullptr, &attributes, pointers_to(words).data(),
                                    pointers_to(variables).data());
  ::posix_spawnattr_destroy(&attributes);
  require(failed == 0, fmt::format("cannot start {}: {}", words[0], std::strerror(failed)));
  return {options.machine * options.processes + local_rank, pid};
}

/// The exit code of a rank that has ended meanwhile.
std::optional<int> ended(Started& started) {
  int status = 0;
  if (!started.running || ::waitpid(started.pid, &status, WNOHANG) != started.pid) return std::nullopt;
  started.running = false;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void signal_all(const std::vector<Started>& ranks, int number) {
  for (const auto& rank : ranks) {
    if (rank.running) ::kill(rank.pid, number);
  }
}

std::string how_it_ended(const Started& rank, int code) {
  return fmt::format("rank {} (process {}) {}", rank.rank, rank.pid,
                     code > 128 ? fmt::format("was ended by signal {} ({})", code - 128, ::strsignal(code - 128))
                                : fmt::format("failed with exit code {}", code));
}

/// Waits for all; patience with the rest ends some time after one has failed.
int wait_for_all(std::vector<Started>& ranks, const LaunchOptions& options) {
  constexpr std::chrono::seconds kPatience(10);
  int result = 0;
  bool passed_on = false;
  std::optional<LaunchClock::time_point> deadline;
  int last_signal = SIGTERM;
  while (std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank.running; })) {
    for (auto& rank : ranks) {
      const auto code = ended(rank);
      if (!code || *code == 0 || result != 0) continue;
      result = *code;
      if (!passed_on) options.say(how_it_ended(rank, *code));
      deadline = LaunchClock::now() + kPatience;
    }
    if (const int number = options.caught_signal(); number != 0 && !passed_on) {
      signal_all(ranks, number);
      passed_on = true;
    }
    if (deadline && LaunchClock::now() > *deadline) {
      signal_all(ranks, last_signal);
      last_signal = SIGKILL;
      deadline = LaunchClock::now() + kPatience;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return result;
}

}  // namespace

int free_port() {
  const int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in here = {};
  here.sin_family = AF_INET;
  socklen_t length = sizeof here;
  const bool good = descriptor >= 0 && ::bind(descriptor, reinterpret_cast<sockaddr*>(&here), length) == 0 &&
                    ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&here), &length) == 0;
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  require(good, fmt::format("cannot open a port: {}", std::strerror(error)));
  return ntohs(here.sin_port);
}

int launch(const LaunchOptions& options) {
  require(!options.command.empty(), "launch needs a command: covnoise launch --nproc 2 train ...");
  require(options.machines == 1 || options.port > 0,
          "several machines need a port to meet at, the same on each: --port");
  const int port = options.port > 0 ? options.port : free_port();
  std::vector<Started> ranks;
  for (int i = 0; i < options.processes; ++i) ranks.push_back(start_rank(options, port, i));
  return wait_for_all(ranks, options);
}

}  // namespace covnoise
