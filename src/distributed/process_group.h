#pragma once
#include "covnoise/distributed/environment.h"
#include "distributed/wait.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace covnoise {

/// A small interface to c10d: only its source file depends on the differences between LibTorch 1.13 and 2.x, and on
/// whether this build has Gloo and NCCL. Failures are c10d's exceptions.
class ProcessGroup {
 public:
  /// Connects to the TCPStore at info.address, which rank 0 serves unless an agent does; waits for that. A
  /// single later operation waits for `timeout` at most.
  ProcessGroup(const RankInfo& info, std::chrono::milliseconds timeout, const Wait& wait);
  ~ProcessGroup();

  /// Small named byte strings shared by all processes. `get` waits until the name exists; nothing if it does not in
  /// time.
  void set(const std::string& name, const std::string& bytes);
  std::optional<std::string> get(const std::string& name, const Wait& wait);

  /// Connects the processes for tensors of this device type: Gloo for CPUs, NCCL for GPUs.
  void connect(at::Device device);
  /// Starts summing over the ranks, in place. Every rank starts the sums in the same order.
  void start_all_reduce(at::Tensor tensor);
  void start_broadcast(at::Tensor tensor, int root);
  /// Waits for all operations started: on a CPU this thread, on a GPU the current stream.
  void finish();
  /// Called at the regular end: no more operations will be started.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace covnoise
