#include "distributed/peer_monitor.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

namespace covnoise {
namespace {

constexpr int kSize = 3;

/// A monitor of rank `rank` with one connection, to `other`, whose other end is `peer`.
class WatchedPeer {
 public:
  WatchedPeer(int rank, int other) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
    peer = Socket(ends[1]);
    std::vector<PeerConnection> connections;
    connections.push_back({other, Socket(ends[0])});
    monitor = std::make_unique<PeerMonitor>(
        rank, kSize, std::move(connections),
        PeerMonitor::LastResort{std::chrono::hours(1), [](int) { FAIL() << "the monitor was destroyed in time"; }});
  }
  std::optional<int> lost() const { return monitor->lost(std::chrono::seconds(60)); }

  Socket peer;
  std::unique_ptr<PeerMonitor> monitor;
};

TEST(PeerMonitor, NamesTheRankWhoseConnectionIsClosed) {
  WatchedPeer watched(0, 2);
  watched.peer.close();
  EXPECT_EQ(watched.lost(), 2);
}

TEST(PeerMonitor, RankZeroTakesANumberForTheEndOfItsSender) {
  for (const std::int32_t number : {1, 1'000'000, -5}) {
    WatchedPeer watched(0, 2);
    ASSERT_TRUE(send_number(watched.peer, number));
    EXPECT_EQ(watched.lost(), 2) << number;
  }
}

TEST(PeerMonitor, OthersBelieveRankZeroOnlyARankThatExists) {
  for (const auto& [number, lost] : std::vector<std::pair<std::int32_t, int>>{{2, 2}, {kSize, 0}, {-7, 0}}) {
    WatchedPeer watched(1, 0);
    ASSERT_TRUE(send_number(watched.peer, number));
    EXPECT_EQ(watched.lost(), lost) << number;
  }
}

TEST(PeerMonitor, HalfANumberIsALoss) {
  WatchedPeer watched(1, 0);
  ASSERT_EQ(::send(watched.peer.descriptor(), "ab", 2, 0), 2);
  watched.peer.close();
  EXPECT_EQ(watched.lost(), 0);
}

TEST(PeerMonitor, AGoodbyeIsNoLoss) {
  WatchedPeer watched(0, 1);
  ASSERT_TRUE(send_number(watched.peer, kGoodbye));
  watched.monitor->leave();
  EXPECT_FALSE(watched.monitor->lost());
}

}  // namespace
}  // namespace covnoise
