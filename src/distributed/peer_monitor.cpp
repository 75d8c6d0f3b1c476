#include "distributed/peer_monitor.h"

#include "covnoise/core/error.h"

#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace covnoise {
namespace {

constexpr std::int32_t kGoodbye = -1;

/// Sends or receives one number; false if the connection is closed.
bool send_number(int descriptor, std::int32_t value) {
  return ::send(descriptor, &value, sizeof value, MSG_NOSIGNAL) == static_cast<ssize_t>(sizeof value);
}
bool receive_number(int descriptor, std::int32_t& value) {
  return ::recv(descriptor, &value, sizeof value, MSG_WAITALL) == static_cast<ssize_t>(sizeof value);
}

/// Probes a silent machine after 10 s, then every 5 s, and gives up after 4 missing answers.
void keep_alive(int descriptor) {
  const int on = 1, idle = 10, interval = 5, probes = 4;
  ::setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  ::setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

int connect_to(const std::string& address, int port) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  require(failed == 0, fmt::format("MASTER_ADDR = {}: {}", address, failed ? ::gai_strerror(failed) : ""));
  int descriptor = -1;
  for (const addrinfo* one = found; one && descriptor < 0; one = one->ai_next) {
    descriptor = ::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0 || ::connect(descriptor, one->ai_addr, one->ai_addrlen) == 0) continue;
    ::close(descriptor);
    descriptor = -1;
  }
  ::freeaddrinfo(found);
  require(descriptor >= 0, fmt::format("cannot reach rank 0 at {}:{}: {}; ranks need each other's unprivileged ports",
                                       address, port, std::strerror(errno)));
  return descriptor;
}

}  // namespace

int PeerMonitor::listen(int& descriptor) {
  sockaddr_in6 here = {};
  here.sin6_family = AF_INET6;
  descriptor = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int off = 0;
  if (descriptor >= 0) ::setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (descriptor < 0 || ::bind(descriptor, reinterpret_cast<sockaddr*>(&here), sizeof here) != 0) {
    // This machine has no IPv6.
    if (descriptor >= 0) ::close(descriptor);
    sockaddr_in old = {};
    old.sin_family = AF_INET;
    descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    require(descriptor >= 0 && ::bind(descriptor, reinterpret_cast<sockaddr*>(&old), sizeof old) == 0,
            fmt::format("cannot open a port: {}", std::strerror(errno)));
  }
  socklen_t length = sizeof here;
  require(
      ::listen(descriptor, 1024) == 0 && ::getsockname(descriptor, reinterpret_cast<sockaddr*>(&here), &length) == 0,
      fmt::format("cannot listen on a port: {}", std::strerror(errno)));
  return ntohs(here.sin6_port);  // at the same place for both families
}

PeerMonitor::PeerMonitor(const RankInfo& info, int listening, int port, std::chrono::milliseconds timeout,
                         LastResort last_resort)
    : leader_(info.rank == 0), last_resort_(std::move(last_resort)) {
  if (leader_) {
    accept_all(listening, info.size - 1, Clock::now() + timeout);
  } else {
    connections_.push_back({0, connect_to(info.address, port)});
    require(send_number(connections_[0].descriptor, info.rank), "rank 0 closed the connection at the start");
  }
  for (const auto& connection : connections_) keep_alive(connection.descriptor);
  open_ = connections_.size();
  require(::pipe(wake_) == 0, fmt::format("cannot open a pipe: {}", std::strerror(errno)));
  thread_ = std::thread([this] { watch(); });
}

void PeerMonitor::accept_all(int listening, int count, Clock::time_point until) {
  while (static_cast<int>(connections_.size()) < count) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd waiting = {listening, POLLIN, 0};
    if (left <= 0 || ::poll(&waiting, 1, static_cast<int>(left)) == 0) {
      throw Error(
          fmt::format("only {} of {} ranks connected; --timeout waits longer", connections_.size() + 1, count + 1));
    }
    const int descriptor = ::accept4(listening, nullptr, nullptr, SOCK_CLOEXEC);
    std::int32_t rank = 0;
    if (descriptor >= 0 && receive_number(descriptor, rank)) connections_.push_back({rank, descriptor});
  }
  ::close(listening);
}

PeerMonitor::~PeerMonitor() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  const char any = 0;
  if (::write(wake_[1], &any, 1) == 1) thread_.join();
  for (const auto& connection : connections_) {
    if (connection.descriptor >= 0) ::close(connection.descriptor);
  }
  ::close(wake_[0]);
  ::close(wake_[1]);
}

void PeerMonitor::watch() {
  for (;;) {
    std::vector<pollfd> waiting = {{wake_[0], POLLIN, 0}};
    for (const auto& connection : connections_) waiting.push_back({connection.descriptor, POLLIN, 0});
    if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;
    if (waiting[0].revents != 0) return;
    for (std::size_t i = 1; i < waiting.size(); ++i) {
      if (waiting[i].revents != 0 && !hear(connections_[i - 1])) return wait_and_give_up();
    }
  }
}

/// False if a rank was lost. A connection that said goodbye is no longer watched.
bool PeerMonitor::hear(Connection& connection) {
  std::int32_t news = 0;
  if (!receive_number(connection.descriptor, news)) news = connection.rank;
  if (news != kGoodbye) {
    announce(news);
    return false;
  }
  if (leader_) send_number(connection.descriptor, kGoodbye);
  ::close(connection.descriptor);
  connection.descriptor = -1;
  const std::lock_guard<std::mutex> lock(mutex_);
  --open_;
  changed_.notify_all();
  return true;
}

void PeerMonitor::announce(int lost) {
  if (leader_) {
    for (const auto& connection : connections_) {
      if (connection.descriptor >= 0 && connection.rank != lost) send_number(connection.descriptor, lost);
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
  if (!leader_) send_number(connections_[0].descriptor, kGoodbye);
  changed_.wait_for(lock, kPatience, [this] { return open_ == 0 || lost_; });
}

}  // namespace covnoise
