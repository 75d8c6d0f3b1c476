#include "distributed/peer_monitor.h"

#include "covnoise/core/error.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace covnoise {

PeerMonitor::PeerMonitor(int rank, int size, std::vector<PeerConnection> connections, LastResort last_resort)
    : leader_(rank == 0), size_(size), connections_(std::move(connections)), last_resort_(std::move(last_resort)) {
  for (const auto& connection : connections_) keep_alive(connection.socket);
  open_ = connections_.size();
  require(::pipe2(wake_, O_CLOEXEC) == 0, fmt::format("cannot open a pipe: {}", std::strerror(errno)));
  thread_ = std::thread([this] { watch(); });
}

PeerMonitor::~PeerMonitor() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  const char any = 0;
  if (::write(wake_[1], &any, 1) == 1) thread_.join();
  ::close(wake_[0]);
  ::close(wake_[1]);
}

void PeerMonitor::watch() {
  for (;;) {
    std::vector<pollfd> waiting = {{wake_[0], POLLIN, 0}};
    for (const auto& connection : connections_) waiting.push_back({connection.socket.descriptor(), POLLIN, 0});
    if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;
    if (waiting[0].revents != 0) return;
    for (std::size_t i = 1; i < waiting.size(); ++i) {
      if (waiting[i].revents != 0 && !hear(connections_[i - 1])) return wait_and_give_up();
    }
  }
}

/// False if a rank was lost. A connection that said goodbye is no longer watched.
bool PeerMonitor::hear(PeerConnection& connection) {
  std::int32_t news = 0;
  const bool received = receive_number(connection.socket, news, Wait(std::chrono::seconds(5), [] {}));
  if (!received || news != kGoodbye) {
    announce(received && is_loss(news) ? news : connection.rank);
    return false;
  }
  if (leader_) send_number(connection.socket, kGoodbye);
  connection.socket.close();
  const std::lock_guard<std::mutex> lock(mutex_);
  --open_;
  changed_.notify_all();
  return true;
}

/// Only rank 0 knows which rank was lost. A connection that sends anything else is lost itself.
bool PeerMonitor::is_loss(std::int32_t news) const { return !leader_ && news >= 0 && news < size_; }

void PeerMonitor::announce(int lost) {
  if (leader_) {
    for (const auto& connection : connections_) {
      if (connection.socket.is_open() && connection.rank != lost) send_number(connection.socket, lost);
    }
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  lost_ = lost;
  changed_.notify_all();
}

void PeerMonitor::wait_and_give_up() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (changed_.wait_for(lock, last_resort_.grace, [this] { return closing_ || leaving_; })) return;
  last_resort_.call(*lost_);
}

std::optional<int> PeerMonitor::lost(std::chrono::milliseconds patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, patience, [this] { return lost_.has_value(); });
  return lost_;
}

void PeerMonitor::leave() {
  constexpr std::chrono::seconds kPatience(30);
  std::unique_lock<std::mutex> lock(mutex_);
  leaving_ = true;
  if (!leader_) send_number(connections_[0].socket, kGoodbye);
  changed_.wait_for(lock, kPatience, [this] { return open_ == 0 || lost_; });
}

}  // namespace covnoise
