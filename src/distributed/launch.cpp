#include "covnoise/distributed/launch.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/child_process.h"
#include "covnoise/core/threads.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
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

struct Rank {
  int number;
  ChildProcess process;
};

std::vector<std::string> environment_of(const LaunchOptions& options, int port, int local_rank) {
  std::vector<std::string> variables = {fmt::format("RANK={}", options.machine * options.processes + local_rank),
                                        fmt::format("WORLD_SIZE={}", options.machines * options.processes),
                                        fmt::format("LOCAL_RANK={}", local_rank),
                                        fmt::format("LOCAL_WORLD_SIZE={}", options.processes),
                                        fmt::format("MASTER_ADDR={}", options.address),
                                        fmt::format("MASTER_PORT={}", port)};
  if (!std::getenv("OMP_NUM_THREADS")) {
    variables.push_back(fmt::format("OMP_NUM_THREADS={}", std::max(1, available_processors() / options.processes)));
  }
  return variables;
}

void signal_all(const std::vector<Rank>& ranks, int number) {
  for (const auto& rank : ranks) rank.process.signal(number);
}

std::string how_it_ended(const Rank& rank, int code) {
  return fmt::format("rank {} (process {}) {}", rank.number, rank.process.id(),
                     code > 128 ? fmt::format("was ended by signal {} ({})", code - 128, ::strsignal(code - 128))
                                : fmt::format("failed with exit code {}", code));
}

/// Waits for all ranks; ends the others some time after one has failed.
int wait_for_all(std::vector<Rank>& ranks, const LaunchOptions& options) {
  constexpr std::chrono::seconds kPatience(10);
  int result = 0;
  bool passed_on = false;
  std::optional<LaunchClock::time_point> deadline;
  int last_signal = SIGTERM;
  while (std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank.process.running(); })) {
    for (auto& rank : ranks) {
      const auto code = rank.process.poll();
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
  std::vector<Rank> ranks;
  for (int i = 0; i < options.processes; ++i) {
    ranks.push_back(
        {options.machine * options.processes + i, ChildProcess({options.command, environment_of(options, port, i)})});
  }
  return wait_for_all(ranks, options);
}

}  // namespace covnoise
