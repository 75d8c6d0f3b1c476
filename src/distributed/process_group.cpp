#include "distributed/process_group.h"

#include "covnoise/core/error.h"
#include "distributed/socket.h"

#include <c10/util/Logging.h>
#include <fmt/format.h>
#include <pthread.h>
#include <torch/version.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <future>
#include <thread>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#ifdef COVNOISE_HAS_GLOO
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#endif
#ifdef COVNOISE_HAS_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif
#if TORCH_VERSION_MAJOR >= 2
#include <torch/csrc/distributed/c10d/Backend.hpp>
#else
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#endif

namespace covnoise {
namespace {

#if TORCH_VERSION_MAJOR >= 2
using C10dBackend = c10d::Backend;
#else
using C10dBackend = c10d::ProcessGroup;
#endif

/// Silences c10d's log: it repeats what c10d throws, and our errors are one line.
void silence_c10d() {
  constexpr int kFatalOnly = 3;
#ifdef C10_USE_GLOG
  FLAGS_minloglevel = std::max(FLAGS_minloglevel, kFatalOnly);
#else
  FLAGS_caffe2_log_level = std::max(FLAGS_caffe2_log_level, kFatalOnly);
#endif
}

/// Blocks SIGPIPE on this thread, and on the threads that it starts meanwhile for their whole life: writing to a closed
/// connection then fails instead of ending the process. Gloo needs this, because it writes to the connection of a lost
/// rank with plain writev. The program's own handling of the signal is not changed.
class WithoutSigpipe {
 public:
  WithoutSigpipe() {
    sigemptyset(&sigpipe_);
    sigaddset(&sigpipe_, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &sigpipe_, &before_);
  }
  ~WithoutSigpipe() {
    if (sigismember(&before_, SIGPIPE)) return;
    const timespec at_once = {};
    sigtimedwait(&sigpipe_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  WithoutSigpipe(const WithoutSigpipe&) = delete;
  WithoutSigpipe& operator=(const WithoutSigpipe&) = delete;

 private:
  sigset_t sigpipe_, before_;
};

/// The meaning of an exception of c10d's store.
[[noreturn]] void no_store(const RankInfo& info, bool serves, const std::string& what, const Wait& wait) {
  if (serves && (what.find("listen") != std::string::npos || what.find("in use") != std::string::npos)) {
    throw Error(fmt::format(
        "rank 0 cannot listen on port {} of this machine: it is in use; set MASTER_PORT to a free port, the "
        "same for all ranks",
        info.port));
  }
  if (serves) {
    throw Error(
        fmt::format("rank 0 cannot be reached at {}:{} by itself: set MASTER_ADDR to this machine's address ({})",
                    info.address, info.port, what.substr(0, what.find('\n'))));
  }
  throw Error(
      fmt::format("rank {} cannot reach rank 0 at {}:{} within {}: check MASTER_ADDR and MASTER_PORT, and that rank 0 "
                  "runs; --timeout waits longer",
                  info.rank, info.address, info.port, wait.timeout_text()));
}

void sleep_for(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

/// Waits until something listens there: c10d's own waiting cannot be interrupted.
void wait_for_server(const RankInfo& info, const Wait& wait) {
  std::string why;
  for (int pause = 5; !connect_to(info.address, info.port, wait, why).is_open(); pause = std::min(2 * pause, 100)) {
    const int slice = wait.slice(pause);
    if (slice == 0) no_store(info, false, why, wait);
    sleep_for(slice);
  }
}

/// The server that every LibTorch has, where there is a choice: that of libuv may be missing.
template <class Options>
auto choose_plain_server(Options& options, int) -> decltype(options.useLibUV = false, void()) {
  options.useLibUV = false;
}
template <class Options>
void choose_plain_server(Options&, long) {}

/// c10d's store, opened by a thread of its own: newer versions wait for its first answer without a timeout. If none
/// comes, what listens there is no store, and that thread is left behind.
c10::intrusive_ptr<c10d::TCPStore> connect_to_store(const RankInfo& info, const c10d::TCPStoreOptions& options,
                                                    const Wait& wait) {
  std::packaged_task<c10::intrusive_ptr<c10d::TCPStore>()> open(
      [address = info.address, options] { return c10::make_intrusive<c10d::TCPStore>(address, options); });
  auto opened = open.get_future();
  std::thread(std::move(open)).detach();
  int slice = wait.slice();
  for (; opened.wait_for(std::chrono::milliseconds(slice)) != std::future_status::ready; slice = wait.slice())
    if (slice == 0) no_store(info, options.isServer, "no answer", wait);
  return opened.get();
}

c10::intrusive_ptr<c10d::Store> open_store(const RankInfo& info, std::chrono::milliseconds timeout, const Wait& wait) {
  silence_c10d();
  const WithoutSigpipe also_in_the_stores_threads;
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(timeout);  // c10d takes whole seconds here
  c10d::TCPStoreOptions options;
  options.port = static_cast<std::uint16_t>(info.port);
  options.isServer = info.rank == 0 && !info.agent_store;
  options.numWorkers = static_cast<std::size_t>(info.size);
  options.waitWorkers = false;
  options.timeout = seconds;
  choose_plain_server(options, 0);
  if (!options.isServer) wait_for_server(info, wait);
  try {
    auto tcp = connect_to_store(info, options, wait);
    tcp->setTimeout(timeout);
    auto store = c10::make_intrusive<c10d::PrefixStore>("covnoise/" + info.attempt, tcp);
    // Only a store answers: `check` would wait forever for an answer of anything else on this port.
    const std::string own = fmt::format("hello/{}", info.rank);
    store->set(own, std::vector<std::uint8_t>{1});
    store->wait({own}, timeout);
    return store;
  } catch (const Error&) {  // ours already
    throw;
  } catch (const std::exception& error) {
    no_store(info, options.isServer, error.what(), wait);
  }
}

#ifdef COVNOISE_HAS_GLOO
c10::intrusive_ptr<C10dBackend> gloo(const RankInfo& info, const c10::intrusive_ptr<c10d::Store>& store,
                                     std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  const char* interface = std::getenv("GLOO_SOCKET_IFNAME");
  options->devices.push_back(
      interface ? c10d::ProcessGroupGloo::createDeviceForInterface(interface)
                : c10d::ProcessGroupGloo::createDeviceForHostname(own_address_towards(info.address, info.port)));
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, info.rank, info.size, options);
}
#endif

#ifdef COVNOISE_HAS_NCCL
c10::intrusive_ptr<C10dBackend> nccl(const RankInfo& info, const c10::intrusive_ptr<c10d::Store>& store,
                                     std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = timeout;
  return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, info.rank, info.size, options);
}
#endif

}  // namespace

struct ProcessGroup::State {
  RankInfo info;
  std::chrono::milliseconds timeout;
  c10::intrusive_ptr<c10d::Store> store;
  c10::intrusive_ptr<C10dBackend> backend;
  std::vector<c10::intrusive_ptr<c10d::Work>> started;
};

ProcessGroup::ProcessGroup(const RankInfo& info, std::chrono::milliseconds timeout, const Wait& wait)
    : state_(new State{info, timeout, open_store(info, timeout, wait), {}, {}}) {}

ProcessGroup::~ProcessGroup() = default;

void ProcessGroup::set(const std::string& name, const std::string& bytes) {
  state_->store->set(name, std::vector<std::uint8_t>(bytes.begin(), bytes.end()));
}

/// Asks again and again instead of waiting in the store, which cannot be interrupted.
std::optional<std::string> ProcessGroup::get(const std::string& name, const Wait& wait) {
  for (int pause = 1; !state_->store->check({name}); pause = std::min(2 * pause, 50)) {
    const int slice = wait.slice(pause);
    if (slice == 0) return std::nullopt;
    sleep_for(slice);
  }
  const auto bytes = state_->store->get(name);
  return std::string(bytes.begin(), bytes.end());
}

void ProcessGroup::connect(at::Device device) {
  const WithoutSigpipe also_in_the_backends_threads;
#ifdef COVNOISE_HAS_GLOO
  if (device.is_cpu()) state_->backend = gloo(state_->info, state_->store, state_->timeout);
#endif
#ifdef COVNOISE_HAS_NCCL
  if (device.is_cuda()) state_->backend = nccl(state_->info, state_->store, state_->timeout);
#endif
  require(state_->backend.defined(),
          fmt::format("this build cannot train on {} in several processes: it was built without {}", device.str(),
                      device.is_cpu() ? "Gloo's headers (libgloo-dev)" : "NCCL's header (nccl.h)"));
}

void ProcessGroup::start_all_reduce(at::Tensor tensor) {
  std::vector<at::Tensor> tensors = {std::move(tensor)};
  state_->started.push_back(state_->backend->allreduce(tensors));
}

void ProcessGroup::start_broadcast(at::Tensor tensor, int root) {
  std::vector<at::Tensor> tensors = {std::move(tensor)};
  c10d::BroadcastOptions options;
  options.rootRank = root;
  state_->started.push_back(state_->backend->broadcast(tensors, options));
}

void ProcessGroup::finish() {
  const auto started = std::move(state_->started);
  state_->started.clear();
  for (const auto& work : started) work->wait();
}

void ProcessGroup::close() {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 7)
  state_->backend->shutdown();
#endif
}

}  // namespace covnoise
