#include "covnoise/distributed/launch.h"

#include "covnoise/core/error.h"
#include "covnoise/core/internal/child_process.h"
#include "covnoise/core/internal/signal_relay.h"
#include "covnoise/core/threads.h"
#include "covnoise/distributed/communicator.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
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

/// How the ranks of one start ended.
struct Ended {
  int code = 0;                     // of the first that failed
  bool only_lost = true;            // no rank failed for a reason of its own, which would come again
  LaunchClock::time_point since{};  // the first failure
};

/// Killed, or ended because another rank was. A rank that was asked to stop is not lost.
bool is_loss(int code) {
  return code == kLostRankExit || (code > 128 && code != 128 + SIGINT && code != 128 + SIGTERM && code != 128 + SIGHUP);
}

void note_failures(std::vector<Rank>& ranks, const LaunchOptions& options, Ended& ended) {
  for (auto& rank : ranks) {
    const auto code = rank.process.poll();
    if (!code || *code == 0) continue;
    ended.only_lost = ended.only_lost && is_loss(*code);
    if (ended.code != 0) continue;
    ended.code = *code;
    ended.since = LaunchClock::now();
    if (options.caught_signal() == 0) options.say(how_it_ended(rank, *code));
  }
}

/// Waits for all ranks. After a failure the others end themselves within three seconds, unless they still wait for the
/// lost one.
Ended wait_for_all(std::vector<Rank>& ranks, const LaunchOptions& options, SignalRelay& relay) {
  constexpr std::chrono::seconds kPatience(4);
  Ended ended;
  while (std::any_of(ranks.begin(), ranks.end(), [](const auto& rank) { return rank.process.running(); })) {
    note_failures(ranks, options, ended);
    relay.pass_on([&](int number) { signal_all(ranks, number); });
    if (ended.code != 0 && LaunchClock::now() > ended.since + kPatience) {
      ranks.clear();  // kills them
      options.say(fmt::format("killed the ranks that had not ended {} s later", kPatience.count()));
      return ended;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return ended;
}

std::vector<Rank> start_all(const LaunchOptions& options) {
  const int port = options.port > 0 ? options.port : free_port();
  std::vector<Rank> ranks;
  for (int i = 0; i < options.processes; ++i) {
    ranks.push_back(
        {options.machine * options.processes + i, ChildProcess({options.command, environment_of(options, port, i)})});
  }
  return ranks;
}

/// The ranks of other machines have ended five seconds after the first failure: new ones must not meet them.
void wait_for_other_machines(const LaunchOptions& options, const Ended& ended) {
  if (options.machines == 1) return;
  while (LaunchClock::now() < ended.since + std::chrono::seconds(5) && options.caught_signal() == 0)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
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
  SignalRelay relay(options.caught_signal, options.stop_now);
  for (int restart = 0;; ++restart) {
    if (restart > 0)
      options.say(fmt::format("starting all ranks again from the last checkpoint (restart {} of {})", restart,
                              options.restarts));
    auto ranks = start_all(options);
    const Ended ended = wait_for_all(ranks, options, relay);
    if (ended.code == 0 || !ended.only_lost || restart == options.restarts) return ended.code;
    wait_for_other_machines(options, ended);
    if (options.caught_signal() != 0) return ended.code;
  }
}

}  // namespace covnoise
