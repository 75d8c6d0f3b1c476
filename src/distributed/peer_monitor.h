#pragma once
#include "distributed/presence.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace covnoise {

/// Detects immediately when the process of a rank ends. Every rank holds an idle connection to rank 0, which the kernel
/// closes when the process ends for any reason; rank 0 tells the others which rank it lost first. The connections carry
/// no data. TCP keep-alive detects a machine that vanishes silently, after about half a minute.
class PeerMonitor {
 public:
  /// Called on a thread of this object if a rank is lost and this object still exists `grace` later: the program's own
  /// thread is then busy with something else, or waits for the lost rank.
  struct LastResort {
    std::chrono::milliseconds grace;
    std::function<void(int lost)> call;
  };

  /// Rank 0 passes the connections to all others, which pass theirs to rank 0.
  PeerMonitor(int rank, int size, std::vector<PeerConnection> connections, LastResort last_resort);
  /// Unless `leave` was called, the others see this rank as lost.
  ~PeerMonitor();

  /// The rank that was lost first; waits for it at most `patience`.
  std::optional<int> lost(std::chrono::milliseconds patience = {});
  /// Says goodbye and waits: rank 0 for the others, the others for its answer.
  void leave();

 private:
  void watch();
  bool hear(PeerConnection& connection);
  bool is_loss(std::int32_t news) const;
  void announce(int lost);
  void wait_and_give_up();

  bool leader_;
  int size_;
  std::vector<PeerConnection> connections_;
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
