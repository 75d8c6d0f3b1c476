#pragma once
#include "covnoise/core/error.h"
#include "covnoise/distributed/environment.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace covnoise {

class PeerMonitor;
class ProcessGroup;
class Wait;

constexpr int kLostRankExit = 4;  ///< exit code of LostRank

/// Thrown by a rank whose training lost another rank.
class LostRank : public Error {
 public:
  LostRank(int rank, const std::string& message) : Error(message, kLostRankExit), rank_(rank) {}
  int rank() const { return rank_; }

 private:
  int rank_;
};

/// How ranks talk to each other.
struct CommunicatorOptions {
  at::Device device = at::kCPU;                ///< of the tensors: Gloo on a CPU, NCCL on a GPU
  std::chrono::milliseconds timeout{600'000};  ///< for connecting at the start, and for one collective operation
  std::function<int()> caught_signal = [] {
    return 0;
  };  ///< if not 0, this rank stops waiting for the others at the start
  std::function<bool()> stop_now = [] { return false; };  ///< whether it stops waiting for them later as well
};

/// Connects the processes of one training: c10d's collective operations. All ranks call the same operations in the same
/// order. If a rank ends before `leave`, the others get a LostRank from the operation they are in, or from the next
/// one; a rank that calls none for three seconds is ended. Waiting that a signal ends is an Error with exit code 128 +
/// signal.
class Communicator {
 public:
  /// Connects to the other ranks; an Error says what is wrong with the address or port, or which ranks are missing.
  Communicator(const RankInfo& info, const CommunicatorOptions& options);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return info_.rank; }
  int size() const { return info_.size; }
  const std::string& name_of(int rank) const { return names_.at(static_cast<std::size_t>(rank)); }

  /// The sum over all ranks, in place, with the same bits on each. On a GPU ordered by the current stream.
  void all_reduce(at::Tensor tensor);
  /// The same in the background, until `finish`.
  void start_all_reduce(at::Tensor tensor);
  void finish();
  /// The tensor of rank `root`, in place.
  void broadcast(at::Tensor tensor, int root);
  /// The byte string of rank `root`, of any size: sent as a tensor.
  std::string broadcast_bytes(const std::string& bytes, int root);
  /// Small byte strings of all ranks, by rank: sent through the store.
  std::vector<std::string> all_gather(const std::string& bytes);
  void barrier() { all_gather({}); }
  /// Called at the regular end, on every rank.
  void leave();

  /// Bytes of tensors that this rank passed to collective operations. (A ring sends 2 (R-1) / R of those of an
  /// all-reduce.)
  std::uint64_t bytes() const { return bytes_; }

 private:
  template <class Work>
  auto guarded(const Work& work) -> decltype(work());
  [[noreturn]] void fail(const std::string& why);
  std::string lost_message(int rank) const;
  void check_waiting() const;
  std::string answer_of(int other, const std::string& name);
  void meet();
  std::string presence_of_rank_0(const Wait& wait);

  RankInfo info_;
  CommunicatorOptions options_;
  bool met_ = false;
  std::vector<std::string> names_;
  std::unique_ptr<PeerMonitor> peers_;
  std::unique_ptr<ProcessGroup> group_;  // destroyed first: its threads may still wait for a lost rank
  std::uint64_t bytes_ = 0;
  std::int64_t gathers_ = 0;
};

}  // namespace covnoise
