#pragma once
#include <functional>
#include <string>
#include <vector>

namespace covnoise {

/// The processes of one training that this machine starts.
struct LaunchOptions {
  int processes = 1;                                      ///< on this machine
  int machines = 1, machine = 0;                          ///< how many there are, and which this one is
  std::string address = "127.0.0.1";                      ///< of machine 0
  int port = 0;                                           ///< on it; 0, for one machine: any that is free
  std::vector<std::string> command;                       ///< program and arguments, the same for all
  std::function<int()> caught_signal = [] { return 0; };  ///< one to pass on; 0: none
  std::function<void(const std::string&)> say = [](const std::string&) {};  ///< lines for people
};

/// Starts the command as ranks machine * processes + (0, 1, ...) with the variables of distributed/environment.h,
/// $OMP_NUM_THREADS set to this machine's processors over their number unless it is set already, and waits for them.
/// Once one has failed, those that have not ended 10 seconds later are ended. Gives the exit code of the first that
/// failed (128 + the signal that ended it), or 0.
int launch(const LaunchOptions& options);

/// A port of this machine that nobody uses at the moment.
int free_port();

}  // namespace covnoise
