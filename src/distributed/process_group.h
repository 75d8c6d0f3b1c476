#pragma once
#include "covnoise/distributed/environment.h"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace covnoise {

/// c10d behind its own small interface: the file of its definition alone knows how LibTorch 1.13 and 2.x differ, and
/// which of Gloo and NCCL this build has. Failures are c10d's exceptions.
class ProcessGroup {
 public:
  /// Meets the other processes at info.address: a TCPStore, which rank 0 serves unless an agent does.
  ProcessGroup(const RankInfo& info, std::chrono::milliseconds timeout);
  ~ProcessGroup();

  /// Small byte strings under names, for all processes. `get` waits for the name.
  void set(const std::string& name, const std::string& bytes);
  std::string get(const std::string& name);

  /// Connects the processes for tensors of this kind of device: Gloo for a CPU, NCCL for a GPU.
  void connect(at::Device device);
  /// Sums over the ranks, in info. Started in the same order by every rank.
  void start_all_reduce(at::Tensor tensor);
  void start_broadcast(at::Tensor tensor, int root);
  /// Until what was started is done: on a CPU waits, on a GPU lets the current stream wait.
  void finish();
  /// At the regular end: nothing more will be started.
  void close();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The address of this machine from which `address` can be reached, in digits.
std::string own_address_towards(const std::string& address, int port);

}  // namespace covnoise
