#pragma once
#include "distributed/wait.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

namespace covnoise {

/// Owns the descriptor of a TCP socket.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  bool is_open() const { return descriptor_ >= 0; }
  int descriptor() const { return descriptor_; }
  void close();

 private:
  int descriptor_ = -1;
};

/// A listening socket and where it listens.
struct Listener {
  Socket socket;
  std::string host;  ///< numeric
  int port = 0;
};

/// Listens on a free port of `address` only; where that is not an address of this machine, on the one from which it can
/// be reached.
Listener listen_at(const std::string& address);

/// One attempt to connect. Closed if it failed, and `why` says how.
Socket connect_to(const std::string& address, int port, const Wait& wait, std::string& why);

/// Probes a silent machine after 10 s, then every 5 s, and gives up after 4 missing answers.
void keep_alive(const Socket& socket);

/// Sends one number without waiting; false if the connection is closed.
bool send_number(const Socket& socket, std::int32_t value);
/// Receives one number; false if the connection is closed, or if the number does not come in time.
bool receive_number(const Socket& socket, std::int32_t& value, const Wait& wait);

/// The numeric address of this machine from which `address` can be reached.
std::string own_address_towards(const std::string& address, int port);

}  // namespace covnoise
