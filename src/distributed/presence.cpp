#include "distributed/presence.h"

#include "covnoise/core/error.h"
#include "covnoise/distributed/communicator.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <sstream>

namespace covnoise {
namespace {

constexpr std::size_t kTokenSize = 64, kMostStrangers = 128;

/// What a rank sends first: the token, its rank and the number of ranks.
struct Hello {
  std::array<char, kTokenSize> token;
  std::uint32_t rank, size;  // in network byte order
};

std::string new_token() {
  std::array<unsigned char, kTokenSize / 2> bytes{};
  require(::getentropy(bytes.data(), bytes.size()) == 0,
          fmt::format("the system has no random numbers: {}", std::strerror(errno)));
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

/// Takes the same time wherever they differ.
bool same_token(const std::array<char, kTokenSize>& sent, const std::string& own) {
  unsigned difference = 0;
  for (std::size_t i = 0; i < kTokenSize; ++i)
    difference |= static_cast<unsigned char>(sent[i]) ^ static_cast<unsigned char>(own[i]);
  return difference == 0;
}

/// After a recv that failed.
bool nothing_yet() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

std::string Presence::to_text() const { return fmt::format("{} {} {}", host, port, token); }

Presence Presence::from_text(const std::string& text) {
  Presence presence;
  std::istringstream words(text);
  words >> presence.host >> presence.port >> presence.token;
  require(words && presence.port > 0 && presence.port < 65536 && presence.token.size() == kTokenSize,
          "rank 0 does not say where it waits for the others: all ranks need the same version of the program");
  return presence;
}

/// A connection that has not shown the token yet.
struct PresenceListener::Stranger {
  Socket socket;
  std::array<char, sizeof(Hello)> bytes{};
  std::size_t received = 0;
  Wait patience{std::chrono::seconds(5), [] {}};
};

PresenceListener::PresenceListener(const std::string& address) : listener_(listen_at(address)) {
  presence_ = {listener_.host, listener_.port, new_token()};
}

std::vector<PeerConnection> PresenceListener::accept_all(int size, const Wait& wait) {
  std::vector<Stranger> strangers;
  while (static_cast<int>(connections_.size()) < size - 1) {
    const int slice = wait.slice();
    if (slice == 0) {
      throw Error(fmt::format(
          "only {} of {} ranks connected to {} within {}{}; --timeout waits longer", connections_.size() + 1, size,
          presence_.host, wait.timeout_text(),
          turned_away_ > 0 ? fmt::format(" ({} connections without the token were closed)", turned_away_) : ""));
    }
    std::vector<pollfd> waiting = {{listener_.socket.descriptor(), POLLIN, 0}};
    for (const auto& stranger : strangers) waiting.push_back({stranger.socket.descriptor(), POLLIN, 0});
    for (const auto& connection : connections_) waiting.push_back({connection.socket.descriptor(), POLLIN, 0});
    ::poll(waiting.data(), waiting.size(), slice);
    refuse_lost();
    for (auto& stranger : strangers) read_from(stranger, size);
    strangers.erase(
        std::remove_if(strangers.begin(), strangers.end(), [](const auto& s) { return !s.socket.is_open(); }),
        strangers.end());
    if (waiting[0].revents != 0) accept_one(strangers);
  }
  listener_.socket.close();
  return std::move(connections_);
}

/// The oldest stranger makes room for a new one: ranks show their token at once.
void PresenceListener::accept_one(std::vector<Stranger>& strangers) {
  Stranger stranger;
  stranger.socket = Socket(::accept4(listener_.socket.descriptor(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!stranger.socket.is_open()) {
    require(errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM,
            fmt::format("rank 0 cannot accept connections: {}", std::strerror(errno)));
    return;
  }
  if (strangers.size() >= kMostStrangers) {
    strangers.erase(strangers.begin());
    ++turned_away_;
  }
  strangers.push_back(std::move(stranger));
}

void PresenceListener::read_from(Stranger& stranger, int size) {
  const ssize_t count = ::recv(stranger.socket.descriptor(), stranger.bytes.data() + stranger.received,
                               stranger.bytes.size() - stranger.received, MSG_DONTWAIT);
  if (count > 0) stranger.received += static_cast<std::size_t>(count);
  if (stranger.received == stranger.bytes.size()) return admit(stranger, size);
  if ((count > 0 || (count < 0 && nothing_yet())) && stranger.patience.slice() > 0) return;
  stranger.socket.close();
  ++turned_away_;
}

/// Moves the socket of a rank to the connections; closes that of anybody else.
void PresenceListener::admit(Stranger& stranger, int size) {
  Hello hello;
  std::memcpy(&hello, stranger.bytes.data(), sizeof hello);
  Socket socket = std::move(stranger.socket);
  if (!same_token(hello.token, presence_.token)) {
    ++turned_away_;
    return;
  }
  const auto rank = static_cast<std::int64_t>(ntohl(hello.rank));
  const bool known =
      std::any_of(connections_.begin(), connections_.end(), [&](const auto& c) { return c.rank == rank; });
  if (known || rank < 1 || rank >= size || static_cast<int>(ntohl(hello.size)) != size) {
    send_number(socket, kRefused);
    return;
  }
  if (send_number(socket, kWelcome)) connections_.push_back({static_cast<int>(rank), std::move(socket)});
}

/// A rank says nothing before all have met: what can be read is the end of its connection.
void PresenceListener::refuse_lost() const {
  for (const auto& lost : connections_) {
    char byte = 0;
    if (::recv(lost.socket.descriptor(), &byte, 1, MSG_DONTWAIT) < 0 && nothing_yet()) continue;
    for (const auto& other : connections_) {
      if (other.rank != lost.rank) send_number(other.socket, lost.rank);
    }
    throw LostRank(lost.rank, fmt::format("rank 0: rank {} ended before all ranks had connected", lost.rank));
  }
}

PeerConnection introduce(const Presence& presence, int rank, int size, const Wait& wait) {
  std::string why;
  Socket socket = connect_to(presence.host, presence.port, wait, why);
  require(
      socket.is_open(),
      fmt::format("rank {} cannot reach rank 0, which waits at {}:{}: {}; set MASTER_ADDR on rank 0 to the address by "
                  "which the others reach it, and let ranks connect to each other's unprivileged ports",
                  rank, presence.host, presence.port, why));
  Hello hello = {};
  std::copy(presence.token.begin(), presence.token.end(), hello.token.begin());
  hello.rank = htonl(static_cast<std::uint32_t>(rank));
  hello.size = htonl(static_cast<std::uint32_t>(size));
  std::int32_t answer = 0;
  const bool answered = ::send(socket.descriptor(), &hello, sizeof hello, MSG_NOSIGNAL) == ssize_t{sizeof hello} &&
                        receive_number(socket, answer, wait);
  require(
      answer != kRefused,
      fmt::format("rank 0 refused rank {} of {}: another process has the same rank, or rank 0 expects another number "
                  "of ranks; check RANK and WORLD_SIZE",
                  rank, size));
  if (!answered || answer != kWelcome)
    throw LostRank(0, fmt::format("rank {}: lost rank 0 before all ranks had connected", rank));
  return {0, std::move(socket)};
}

}  // namespace covnoise
