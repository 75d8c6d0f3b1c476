#pragma once
#include "covnoise/distributed/environment.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace covnoise {

/// Notices at once when the process of a rank ends. Every rank holds one idle connection to rank 0, which the kernel
/// closes with the process, however that ends; rank 0 tells the others whom it lost first. No data goes this way. A
/// machine that vanishes without a word is noticed by TCP's keep-alive, after about half a minute.
class PeerMonitor {
 public:
  using Clock = std::chrono::steady_clock;

  /// Rank 0: the port where the others shall connect.
  static int listen(int& descriptor);

  /// What happens where a rank is lost and this object still lives `grace` later: the program's own thread is then busy
  /// with something else, or waits for the lost one. Called on a thread of this object.
  struct LastResort {
    std::chrono::milliseconds grace;
    std::function<void(int lost)> call;
  };

  /// Rank 0 with the descriptor of `listen`, the others with its port.
  PeerMonitor(const RankInfo& info, int listening, int port, std::chrono::milliseconds timeout, LastResort last_resort);
  /// Without `leave` before it, the others see this rank as lost.
  ~PeerMonitor();

  /// The rank that was lost first; waits for the news as long as `patience`.
  std::optional<int> lost(std::chrono::milliseconds patience = {});
  /// Says goodbye, and waits: rank 0 for the others, they for its answer.
  void leave();

 private:
  struct Connection {
    int rank, descriptor;
  };
  void accept_all(int listening, int count, Clock::time_point until);
  void watch();
  bool hear(Connection& connection);
  void announce(int lost);
  void wait_and_give_up();

  bool leader_;
  std::vector<Connection> connections_;
  int wake_[2] = {-1, -1};
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<int> lost_;
  bool leaving_ = false, closing_ = false;
  std::size_t open_ = 0;  // connections that have not said goodbye
  LastResort last_resort_;
  std::thread thread_;
};

}  // namespace covnoise
