#pragma once
#include "covnoise/core/threads.h"
#include "covnoise/distributed/communicator.h"
#include "covnoise/distributed/launch.h"

#include <exception>
#include <thread>
#include <vector>

namespace covnoise::testing {

inline RankInfo rank_on_loopback(int rank, int size, int port) {
  RankInfo info;
  info.launcher = "test";
  info.rank = info.local_rank = rank;
  info.size = size;
  info.port = port;
  return info;
}

/// Calls work(communicator) as each of `count` ranks, one thread per rank, connected over the loopback: by Gloo, unless
/// the options name a GPU, of which each rank needs its own. Rethrows an exception of a rank; that of a rank which
/// merely lost another rank only if there is no other.
template <class Work>
void as_ranks(int count, const Work& work, const CommunicatorOptions& options = {}) {
  const int port = free_port();
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(count)), losses = errors;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      set_threads(1);
      try {
        Communicator communicator(rank_on_loopback(rank, count, port), options);
        work(communicator);
        communicator.leave();
      } catch (const LostRank&) {
        losses[static_cast<std::size_t>(rank)] = std::current_exception();
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  errors.insert(errors.end(), losses.begin(), losses.end());
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace covnoise::testing
