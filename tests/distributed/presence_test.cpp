// Rank 0's port while the ranks meet: who is admitted, and who is not.
#include "distributed/presence.h"

#include "covnoise/core/error.h"
#include "covnoise/distributed/communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <filesystem>
#include <future>

namespace covnoise {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Wait patient() {
  return {std::chrono::seconds(60), [] {}};
}
Wait impatient() {
  return {std::chrono::milliseconds(300), [] {}};
}

Socket stranger_at(const Presence& presence, const std::string& bytes = "") {
  std::string why;
  Socket socket = connect_to(presence.host, presence.port, patient(), why);
  EXPECT_TRUE(socket.is_open()) << why;
  ::send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  return socket;
}

/// Whether the other end closes the connection.
bool is_closed_by_peer(const Socket& socket) {
  pollfd waiting = {socket.descriptor(), POLLIN, 0};
  char byte = 0;
  return ::poll(&waiting, 1, 60'000) == 1 && ::recv(socket.descriptor(), &byte, 1, 0) <= 0;
}

std::ptrdiff_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return std::distance(begin(all), end(all));
}

TEST(Presence, StrangersDelayNobodyAndLeaveNoDescriptor) {
  const auto before = open_descriptors();
  {
    PresenceListener listener("127.0.0.1");
    const auto silent = stranger_at(listener.presence()), slow = stranger_at(listener.presence(), "ab"),
               loud = stranger_at(listener.presence(), std::string(72, 'x')),
               number = stranger_at(listener.presence(), std::string(4, '\xff'));
    stranger_at(listener.presence(), "ab").close();
    auto rank = std::async(std::launch::async,
                           [presence = listener.presence()] { return introduce(presence, 1, 2, patient()); });
    const auto connections = listener.accept_all(2, patient());
    EXPECT_EQ(rank.get().rank, 0);
    ASSERT_EQ(connections.size(), 1u);
    EXPECT_EQ(connections[0].rank, 1);
    for (const auto* stranger : {&silent, &slow, &loud, &number}) EXPECT_TRUE(is_closed_by_peer(*stranger));
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Presence, ASilentStrangerDoesNotOutliveTheTimeout) {
  PresenceListener listener("127.0.0.1");
  const auto silent = stranger_at(listener.presence());
  EXPECT_THAT([&] { listener.accept_all(2, impatient()); },
              ThrowsMessage<Error>(HasSubstr("only 1 of 2 ranks connected to 127.0.0.1 within 0.3 s")));
}

TEST(Presence, ManyStrangersMakeRoomForARank) {
  PresenceListener listener("127.0.0.1");
  const auto rank = std::async(std::launch::async, [&] {
    std::vector<Socket> crowd;
    for (int i = 0; i < 300; ++i) crowd.push_back(stranger_at(listener.presence()));
    introduce(listener.presence(), 1, 2, patient());
  });
  EXPECT_EQ(listener.accept_all(2, patient()).size(), 1u);
}

TEST(Presence, ListensOnlyAtTheAddressGiven) {
  const PresenceListener listener("127.0.0.1");
  EXPECT_EQ(listener.presence().host, "127.0.0.1");
  std::string why;
  EXPECT_FALSE(connect_to("127.0.0.2", listener.presence().port, patient(), why).is_open());
  EXPECT_TRUE(connect_to("127.0.0.1", listener.presence().port, patient(), why).is_open()) << why;
}

TEST(Presence, AnotherTokenIsClosedWithoutAnAnswer) {
  PresenceListener listener("127.0.0.1");
  Presence guess = listener.presence();
  guess.token.back() = guess.token.back() == '0' ? '1' : '0';
  auto rank = std::async(std::launch::async, [&] { return introduce(guess, 1, 2, patient()); });
  const Wait until_it_is_closed(std::chrono::seconds(60), [&] {
    if (rank.wait_for(std::chrono::seconds(0)) == std::future_status::ready) throw std::runtime_error("closed");
  });
  EXPECT_THAT([&] { listener.accept_all(2, until_it_is_closed); }, ThrowsMessage<std::runtime_error>("closed"));
  EXPECT_THAT([&] { rank.get(); }, ThrowsMessage<LostRank>(HasSubstr("lost rank 0")));
  EXPECT_NE(PresenceListener("127.0.0.1").presence().token, listener.presence().token);
}

/// Rank 0 of three ranks, which refuses one that gives this rank and size, and still admits the right ones.
void expect_refused(int rank, int size) {
  PresenceListener listener("127.0.0.1");
  const auto ranks = std::async(std::launch::async, [&] {
    const auto first = introduce(listener.presence(), 1, 3, patient());
    EXPECT_THAT([&] { introduce(listener.presence(), rank, size, patient()); },
                ThrowsMessage<Error>(HasSubstr("check RANK and WORLD_SIZE")));
    introduce(listener.presence(), 2, 3, patient());
  });
  EXPECT_EQ(listener.accept_all(3, patient()).size(), 2u);
}

TEST(Presence, RefusesARankTwiceOutOfRangeOrOfAnotherSize) {
  for (const auto& [rank, size] : std::vector<std::pair<int, int>>{{1, 3}, {0, 3}, {3, 3}, {-1, 3}, {2, 4}})
    expect_refused(rank, size);
}

TEST(Presence, ARankThatEndsBeforeAllHaveConnectedEndsTheMeeting) {
  PresenceListener listener("127.0.0.1");
  std::int32_t told = 0;
  const auto ranks = std::async(std::launch::async, [&] {
    const auto first = introduce(listener.presence(), 1, 4, patient());
    introduce(listener.presence(), 2, 4, patient()).socket.close();
    EXPECT_TRUE(receive_number(first.socket, told, patient()));
  });
  EXPECT_THAT([&] { listener.accept_all(4, patient()); },
              ThrowsMessage<LostRank>(HasSubstr("rank 2 ended before all ranks had connected")));
  ranks.wait();
  EXPECT_EQ(told, 2);
}

TEST(Presence, IsReadAsItWasWritten) {
  const Presence presence{"::1", 4242, std::string(64, 'a')};
  const auto read = Presence::from_text(presence.to_text());
  EXPECT_EQ(read.host, presence.host);
  EXPECT_EQ(read.port, presence.port);
  EXPECT_EQ(read.token, presence.token);
  EXPECT_THROW(Presence::from_text("4242"), Error);
}

}  // namespace
}  // namespace covnoise
