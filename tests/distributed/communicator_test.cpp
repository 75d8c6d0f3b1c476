#include "covnoise/distributed/communicator.h"

#include "distributed/process_group.h"
#include "distributed/socket.h"
#include "support/ranks.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <torch/version.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <mutex>
#include <set>

namespace covnoise {
namespace {

constexpr std::chrono::seconds kLong(30);

TEST(Communicator, SumsOverRanksAndCountsItsBytes) {
  for (const int count : {1, 2, 4}) {
    testing::as_ranks(count, [&](Communicator& ranks) {
      const auto before = ranks.bytes();
      auto tensor = at::full({1000}, ranks.rank() + 1.0, at::kDouble);
      ranks.all_reduce(tensor);
      EXPECT_TRUE(tensor.eq(count * (count + 1) / 2).all().item<bool>());
      EXPECT_EQ(ranks.bytes() - before, 8000U);
    });
  }
}

TEST(Communicator, SeveralSumsRunInTheBackground) {
  testing::as_ranks(2, [](Communicator& ranks) {
    std::vector<at::Tensor> buckets;
    for (int i = 0; i < 5; ++i) {
      buckets.push_back(at::full({100 + i}, i + ranks.rank(), at::kFloat));
      ranks.start_all_reduce(buckets.back());
    }
    ranks.finish();
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(buckets[static_cast<std::size_t>(i)].eq(2 * i + 1).all().item<bool>());
  });
}

TEST(Communicator, BroadcastsStringsOfAnyBytes) {
  testing::as_ranks(3, [](Communicator& ranks) {
    const std::string own = "rank" + std::string(static_cast<std::size_t>(ranks.rank()), '\0') + ":";
    const auto all = ranks.all_gather(own);
    ASSERT_EQ(all.size(), 3U);
    EXPECT_EQ(all[2], std::string("rank\0\0:", 7));
    EXPECT_EQ(all[static_cast<std::size_t>(ranks.rank())], own);
    EXPECT_EQ(ranks.broadcast_bytes(ranks.rank() == 1 ? std::string(70000, 'x') : "", 1), std::string(70000, 'x'));
    EXPECT_EQ(ranks.broadcast_bytes("", 0), "");
  });
}

TEST(Communicator, NamesTheRankThatWasLost) {
  for (const int gone : {0, 2}) {
    std::mutex mutex;
    std::vector<int> lost;
    EXPECT_THROW(testing::as_ranks(3,
                                   [&](Communicator& ranks) {
                                     try {
                                       ranks.barrier();  // the others may lose rank 0, which serves the store, in here
                                       if (ranks.rank() == gone) throw std::runtime_error("ends without a goodbye");
                                       for (;;) ranks.all_reduce(at::zeros({1000}));
                                     } catch (const LostRank& error) {
                                       const std::lock_guard<std::mutex> lock(mutex);
                                       lost.push_back(error.rank());
                                       throw;
                                     }
                                   }),
                 std::runtime_error);
    EXPECT_THAT(lost, ::testing::ElementsAre(gone, gone));
  }
}

std::set<pid_t> threads_of_this_process() {
  std::set<pid_t> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    threads.insert(std::stoi(entry.path().filename()));
  }
  return threads;
}

// Gloo's threads get this signal when they send to a rank that has just ended; it would silently end this process.
TEST(Communicator, ThreadsOfItsConnectionsOutliveABrokenPipe) {
  const auto before = threads_of_this_process();
  ProcessGroup group(testing::rank_on_loopback(0, 1, free_port()), kLong, {kLong, [] {}});
  group.connect(at::kCPU);
  int signalled = 0;
  for (const pid_t thread : threads_of_this_process()) {
    if (!before.count(thread) && ::syscall(SYS_tgkill, ::getpid(), thread, SIGPIPE) == 0) ++signalled;
  }
  EXPECT_GE(signalled, 2);  // the store's, and Gloo's
  sigset_t blocked;
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  EXPECT_FALSE(::sigismember(&blocked, SIGPIPE)) << "the program's own threads keep the signal";
}

TEST(Communicator, SaysWhatIsWrongWithTheAddress) {
  const int port = free_port();
  CommunicatorOptions impatient;
  impatient.timeout = std::chrono::milliseconds(300);
  EXPECT_THAT([&] { Communicator(testing::rank_on_loopback(1, 2, port), impatient); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("cannot reach rank 0 at 127.0.0.1")));
  EXPECT_THAT([&] { Communicator(testing::rank_on_loopback(0, 2, port), impatient); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("only 1 of 2 ranks connected")));
  testing::as_ranks(1, [&](Communicator&) {});
}

TEST(Communicator, ASignalEndsTheWaitingForOthers) {
  CommunicatorOptions interrupted;  // with a timeout of ten minutes
  int asked = 0;
  interrupted.caught_signal = [&] { return ++asked > 3 ? SIGHUP : 0; };
  for (const int rank : {0, 1}) {
    asked = 0;
    try {
      Communicator(testing::rank_on_loopback(rank, 2, free_port()), interrupted);
      FAIL() << "rank " << rank << " met nobody";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("interrupted while waiting for the other ranks"));
      EXPECT_EQ(error.exit_code(), 128 + SIGHUP);
    }
  }
}

/// After the start only a second signal does, because the first one ends the training after a step of all ranks.
TEST(Communicator, ASecondSignalEndsTheWaitingLater) {
  CommunicatorOptions options;
  std::atomic<bool> met{false}, waiting{false};
  options.caught_signal = [&] { return met ? SIGINT : 0; };
  options.stop_now = [&] { return waiting.load(); };
  EXPECT_THAT(
      [&] {
        testing::as_ranks(
            2,
            [&](Communicator& ranks) {
              ranks.barrier();
              met = true;
              ranks.barrier();
              if (ranks.rank() == 0) return;  // waits for rank 1 in leave()
              waiting = true;
              throw LostRank(1, "ends as well");
            },
            options);
      },
      ::testing::ThrowsMessage<Error>(::testing::HasSubstr("interrupted while waiting")));
}

TEST(Communicator, ASilentStrangerInPlaceOfTheStoreIsNoRankZero) {
  const Listener stranger = listen_at("127.0.0.1");
  CommunicatorOptions impatient;
  impatient.timeout = std::chrono::milliseconds(300);
  EXPECT_THAT([&] { Communicator(testing::rank_on_loopback(1, 2, stranger.port), impatient); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("cannot reach rank 0 at 127.0.0.1")));
}

#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 4)
// Earlier versions send without an answer here, and wait in the store for no longer than the timeout.
TEST(Communicator, ASignalEndsTheWaitingForASilentStranger) {
  const Listener stranger = listen_at("127.0.0.1");
  CommunicatorOptions interrupted;  // with a timeout of ten minutes
  int asked = 0;
  interrupted.caught_signal = [&] { return ++asked > 3 ? SIGHUP : 0; };
  EXPECT_THAT([&] { Communicator(testing::rank_on_loopback(1, 2, stranger.port), interrupted); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("interrupted while waiting")));
}
#endif

// torchrun's agent keeps its store across restarts: names of the previous attempt must not be seen again.
TEST(Communicator, MeetsAtAnAgentsStoreOncePerAttempt) {
  const int port = free_port();
  const ProcessGroup agent(testing::rank_on_loopback(0, 1, port), kLong, {kLong, [] {}});
  for (const char* attempt : {"0", "1"}) {
    const auto join = [&](int rank) {
      RankInfo info = testing::rank_on_loopback(rank, 2, port);
      info.agent_store = true;
      info.attempt = attempt;
      Communicator ranks(info, {});
      EXPECT_EQ(ranks.all_gather(attempt), std::vector<std::string>(2, attempt));
      ranks.leave();
    };
    std::thread other(join, 1);
    join(0);
    other.join();
  }
}

TEST(Communicator, RefusesAPortThatIsTaken) {
  const int port = free_port();
  const Communicator holder(testing::rank_on_loopback(0, 1, port), {});
  EXPECT_THAT([&] { Communicator(testing::rank_on_loopback(0, 1, port), {}); },
              ::testing::ThrowsMessage<Error>(::testing::HasSubstr("it is in use")));
}

}  // namespace
}  // namespace covnoise
