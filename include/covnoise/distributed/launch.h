#pragma once
#include <functional>
#include <string>
#include <vector>

namespace covnoise {

/// The processes of one training that this machine starts.
struct LaunchOptions {
  int processes = 1;                                      ///< on this machine
  int machines = 1, machine = 0;                          ///< their number, and the index of this one
  std::string address = "127.0.0.1";                      ///< of machine 0
  int port = 0;                                           ///< of machine 0; 0 (one machine only): any free port
  std::vector<std::string> command;                       ///< program and arguments, the same for all
  int restarts = 0;                                       ///< how often all ranks may be started again after a loss
  std::function<int()> caught_signal = [] { return 0; };  ///< one to pass on; 0: none
  std::function<bool()> stop_now = [] { return false; };  ///< whether to pass it on a second time
  std::function<void(const std::string&)> say = [](const std::string&) {};  ///< receives lines for the user
};

/// Starts the command as ranks machine * processes + (0, 1, ...) with the variables of distributed/environment.h and
/// waits for them. $OMP_NUM_THREADS is this machine's processors divided by the processes, unless it is already set.
/// Those that have not ended themselves four seconds after one has failed are killed. If ranks were only lost (killed,
/// or ended with kLostRankExit), all are started again, up to `restarts` times; the command then resumes by itself.
/// Returns the exit code of the first rank that failed (128 + the signal that ended it), or 0.
int launch(const LaunchOptions& options);

/// A port of this machine that is currently unused.
int free_port();

}  // namespace covnoise
