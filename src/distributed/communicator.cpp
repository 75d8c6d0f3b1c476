#include "covnoise/distributed/communicator.h"

#include "distributed/peer_monitor.h"
#include "distributed/process_group.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace covnoise {
namespace {

constexpr std::chrono::milliseconds kGrace(3000);     // for the program's own thread, after a rank is lost
constexpr std::chrono::milliseconds kPatience(1500);  // for the name of the lost rank, after an operation has failed

std::string own_name() {
  char host[256] = "?";
  ::gethostname(host, sizeof host - 1);
  return fmt::format("{}, process {}", host, ::getpid());
}

/// Byte strings one after another, each preceded by its length.
std::string joined(const std::vector<std::string>& parts) {
  std::string all;
  for (const auto& part : parts) all += fmt::format("{}:{}", part.size(), part);
  return all;
}

std::vector<std::string> parted(const std::string& all) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t colon = all.find(':', at), size = std::stoul(all.substr(at, colon - at));
    parts.push_back(all.substr(colon + 1, size));
    at = colon + 1 + size;
  }
  return parts;
}

}  // namespace

Communicator::Communicator(const RankInfo& info, const CommunicatorOptions& options)
    : info_(info), options_(options), names_(static_cast<std::size_t>(info.size), "not introduced yet") {
  meet();
  guarded([&] { group_->connect(options.device); });
  auto first = at::zeros({1}, at::TensorOptions(options.device));  // NCCL connects at the first use
  all_reduce(first);
  met_ = true;
}

void Communicator::meet() {
  const Wait wait(options_.timeout, [this] { check_waiting(); });
  group_ = std::make_unique<ProcessGroup>(info_, options_.timeout, wait);
  std::vector<PeerConnection> connections;
  if (info_.rank == 0) {
    PresenceListener listener(info_.address);
    group_->set("presence", listener.presence().to_text());
    connections = listener.accept_all(info_.size, wait);
  } else {
    connections.push_back(introduce(Presence::from_text(presence_of_rank_0(wait)), info_.rank, info_.size, wait));
  }
  const auto give_up = [this](int lost) {
    std::fprintf(stderr, "covnoise: %s\n", lost_message(lost).c_str());
    std::fflush(stderr);
    ::_exit(kLostRankExit);
  };
  peers_ = std::make_unique<PeerMonitor>(info_.rank, info_.size, std::move(connections),
                                         PeerMonitor::LastResort{kGrace, give_up});
  names_ = all_gather(own_name());
}

/// Where rank 0 waits. Without it, its store breaks as well.
std::string Communicator::presence_of_rank_0(const Wait& wait) {
  std::optional<std::string> presence;
  try {
    presence = group_->get("presence", wait);
  } catch (const Error&) {
    throw;
  } catch (const std::exception&) {
    throw LostRank(0, fmt::format("rank {}: lost rank 0 at {}:{} before all ranks had connected", info_.rank,
                                  info_.address, info_.port));
  }
  require(presence.has_value(), fmt::format("rank {} found no rank 0 at {}:{} within {}; --timeout waits longer",
                                            info_.rank, info_.address, info_.port, wait.timeout_text()));
  return *presence;
}

/// Throws what ends the waiting for other ranks: a signal (once the training runs, the second one), or a lost rank,
/// which may have ended because of the same signal.
void Communicator::check_waiting() const {
  if (met_ ? options_.stop_now() : options_.caught_signal() != 0)
    throw Error("interrupted while waiting for the other ranks", 128 + options_.caught_signal());
  if (const auto lost = peers_ ? peers_->lost() : std::nullopt) throw LostRank(*lost, lost_message(*lost));
}

Communicator::~Communicator() { group_.reset(); }

std::string Communicator::lost_message(int rank) const {
  return fmt::format(
      "rank {}: lost rank {} ({}), so the training cannot continue; the last checkpoint is complete: repeat "
      "the command to resume from it",
      info_.rank, rank, name_of(rank));
}

void Communicator::fail(const std::string& why) {
  check_waiting();
  if (const auto lost = peers_->lost(kPatience)) throw LostRank(*lost, lost_message(*lost));
  throw Error(fmt::format("the other ranks do not answer: {}", why));
}

template <class Work>
auto Communicator::guarded(const Work& work) -> decltype(work()) {
  if (const auto lost = peers_->lost()) throw LostRank(*lost, lost_message(*lost));
  try {
    return work();
  } catch (const Error&) {
    throw;
  } catch (const c10::Error& error) {
    fail(error.what_without_backtrace());
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

void Communicator::start_all_reduce(at::Tensor tensor) {
  TORCH_CHECK(tensor.is_contiguous(), "an all-reduce needs a contiguous tensor");
  bytes_ += tensor.nbytes();
  guarded([&] { group_->start_all_reduce(tensor); });
}

void Communicator::finish() {
  guarded([&] { group_->finish(); });
}

void Communicator::all_reduce(at::Tensor tensor) {
  start_all_reduce(std::move(tensor));
  finish();
}

void Communicator::broadcast(at::Tensor tensor, int root) {
  TORCH_CHECK(tensor.is_contiguous(), "a broadcast needs a contiguous tensor");
  if (root == rank()) bytes_ += tensor.nbytes();
  guarded([&] {
    group_->start_broadcast(tensor, root);
    group_->finish();
  });
}

std::string Communicator::broadcast_bytes(const std::string& bytes, int root) {
  auto size =
      at::full({1}, static_cast<std::int64_t>(bytes.size()), at::TensorOptions(options_.device).dtype(at::kLong));
  broadcast(size, root);
  const std::int64_t count = size.item<std::int64_t>();
  if (count == 0) return {};
  auto tensor = at::empty({count}, at::kByte);
  if (root == rank()) std::memcpy(tensor.data_ptr(), bytes.data(), bytes.size());
  tensor = tensor.to(options_.device);
  broadcast(tensor, root);
  if (root == rank()) return bytes;
  tensor = tensor.cpu();
  return {static_cast<const char*>(tensor.data_ptr()), static_cast<std::size_t>(count)};
}

/// Rank 0 collects them and distributes all at once: 2 R messages instead of R^2.
std::vector<std::string> Communicator::all_gather(const std::string& bytes) {
  const std::string key = fmt::format("gather/{}/", gathers_++);
  return guarded([&] {
    if (rank() != 0) {
      group_->set(key + std::to_string(rank()), bytes);
      return parted(answer_of(0, key + "all"));
    }
    std::vector<std::string> parts = {bytes};
    for (int other = 1; other < size(); ++other) parts.push_back(answer_of(other, key + std::to_string(other)));
    group_->set(key + "all", joined(parts));
    return parts;
  });
}

std::string Communicator::answer_of(int other, const std::string& name) {
  const Wait wait(options_.timeout, [this] { check_waiting(); });
  const auto bytes = group_->get(name, wait);
  require(bytes.has_value(), fmt::format("rank {} ({}) did not answer within {}; --timeout waits longer", other,
                                         name_of(other), wait.timeout_text()));
  return *bytes;
}

void Communicator::leave() {
  barrier();
  guarded([&] { group_->close(); });
  peers_->leave();
}

}  // namespace covnoise
