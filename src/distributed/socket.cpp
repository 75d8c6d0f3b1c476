#include "distributed/socket.h"

#include "covnoise/core/error.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

namespace covnoise {
namespace {

struct FreeAddresses {
  void operator()(addrinfo* found) const { ::freeaddrinfo(found); }
};
using Addresses = std::unique_ptr<addrinfo, FreeAddresses>;

/// What the name stands for; null, and `why`, if it stands for nothing.
Addresses resolve(const std::string& address, int port, int type, std::string& why) {
  addrinfo hints = {};
  hints.ai_socktype = type;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) why = ::gai_strerror(failed);
  return Addresses(failed == 0 ? found : nullptr);
}

Addresses resolve(const std::string& address, int port, int type) {
  std::string why;
  auto found = resolve(address, port, type, why);
  require(found != nullptr, fmt::format("MASTER_ADDR = {}: {}", address, why));
  return found;
}

std::string own_host(const Socket& socket, int& port) {
  sockaddr_storage own = {};
  socklen_t length = sizeof own;
  char host[NI_MAXHOST], service[NI_MAXSERV];
  auto* address = reinterpret_cast<sockaddr*>(&own);
  if (::getsockname(socket.descriptor(), address, &length) != 0 ||
      ::getnameinfo(address, length, host, sizeof host, service, sizeof service, NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "";
  port = std::stoi(service);
  return host;
}

/// Closed, with errno, if this is not an address of this machine.
Socket bound_to(const addrinfo& address) {
  Socket socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (socket.is_open() && (::bind(socket.descriptor(), address.ai_addr, address.ai_addrlen) != 0 ||
                           ::listen(socket.descriptor(), SOMAXCONN) != 0))
    socket.close();
  return socket;
}

/// Until the connection that `socket` has begun stands or has failed; the error, or 0.
int error_of_connection(const Socket& socket, const Wait& wait) {
  pollfd waiting = {socket.descriptor(), POLLOUT, 0};
  for (;;) {
    const int slice = wait.slice();
    if (slice == 0) return ETIMEDOUT;
    if (::poll(&waiting, 1, slice) > 0) break;
  }
  int error = 0;
  socklen_t length = sizeof error;
  return ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &error, &length) == 0 ? error : errno;
}

}  // namespace

void Socket::close() {
  if (is_open()) ::close(std::exchange(descriptor_, -1));
}

Listener listen_at(const std::string& address) {
  Listener listener;
  for (const std::string& host : {address, own_address_towards(address, 1)}) {
    const auto found = resolve(host, 0, SOCK_STREAM);
    for (const addrinfo* one = found.get(); one && !listener.socket.is_open(); one = one->ai_next)
      listener.socket = bound_to(*one);
    if (listener.socket.is_open()) break;
  }
  require(listener.socket.is_open(), fmt::format("cannot listen at {}: {}", address, std::strerror(errno)));
  listener.host = own_host(listener.socket, listener.port);
  return listener;
}

Socket connect_to(const std::string& address, int port, const Wait& wait, std::string& why) {
  const auto found = resolve(address, port, SOCK_STREAM, why);
  for (const addrinfo* one = found.get(); one; one = one->ai_next) {
    Socket socket(::socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    int error = socket.is_open() ? 0 : errno;
    if (error == 0 && ::connect(socket.descriptor(), one->ai_addr, one->ai_addrlen) != 0)
      error = errno == EINPROGRESS ? error_of_connection(socket, wait) : errno;
    if (error == 0) return socket;
    why = std::strerror(error);
  }
  return {};
}

void keep_alive(const Socket& socket) {
  const int on = 1, idle = 10, interval = 5, probes = 4;
  ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  ::setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

bool send_number(const Socket& socket, std::int32_t value) {
  const std::uint32_t bytes = htonl(static_cast<std::uint32_t>(value));
  return ::send(socket.descriptor(), &bytes, sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT) ==
         static_cast<ssize_t>(sizeof bytes);
}

bool receive_number(const Socket& socket, std::int32_t& value, const Wait& wait) {
  std::uint32_t bytes = 0;
  for (std::size_t received = 0; received < sizeof bytes;) {
    const ssize_t count =
        ::recv(socket.descriptor(), reinterpret_cast<char*>(&bytes) + received, sizeof bytes - received, MSG_DONTWAIT);
    if (count > 0) {
      received += static_cast<std::size_t>(count);
      continue;
    }
    const bool later = count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    const int slice = later ? wait.slice() : 0;
    if (slice == 0) return false;
    pollfd waiting = {socket.descriptor(), POLLIN, 0};
    ::poll(&waiting, 1, slice);
  }
  value = static_cast<std::int32_t>(ntohl(bytes));
  return true;
}

std::string own_address_towards(const std::string& address, int port) {
  const auto found = resolve(address, port, SOCK_DGRAM);
  std::string result;
  for (const addrinfo* one = found.get(); one && result.empty(); one = one->ai_next) {
    const Socket socket(::socket(one->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    int own_port = 0;
    // Connecting a UDP socket sends nothing.
    if (socket.is_open() && ::connect(socket.descriptor(), one->ai_addr, one->ai_addrlen) == 0)
      result = own_host(socket, own_port);
  }
  require(!result.empty(), fmt::format("MASTER_ADDR = {}: not reachable from this machine", address));
  return result;
}

}  // namespace covnoise
