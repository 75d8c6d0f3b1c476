#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace covnoise {

/// The device named `cpu`, `cuda` or `cuda:1`; an Error for any other name, for a build without CUDA kernels, and for a
/// GPU that does not exist.
at::Device device_of(const std::string& name);

/// How the libraries on a GPU (cuBLAS, cuDNN) compute.
struct GpuArithmetic {
  bool tf32 = false;           ///< round the factors of float32 products to tf32
  bool deterministic = false;  ///< the same bits in every run, with algorithms that may be slower
};
/// Sets it for the whole process.
void set_gpu_arithmetic(const GpuArithmetic& arithmetic);

/// Sends this thread's work on a GPU to a stream of its own during its lifetime. Does nothing on a CPU.
class DeviceStream {
 public:
  explicit DeviceStream(at::Device device);
  ~DeviceStream();
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Runs `work` on a second stream of the GPU, concurrently with what this thread launches during the lifetime of the
/// object; on a CPU it runs at once. Neither may write what the other reads. Can be captured in a CudaGraphSequence.
class SideStream {
 public:
  SideStream(at::Device device, const std::function<void()>& work);
  ~SideStream();
  SideStream(const SideStream&) = delete;
  SideStream& operator=(const SideStream&) = delete;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Work on a GPU as CUDA graphs: captured once, run by each `replay` with one launch instead of hundreds. The work must
/// have run before (libraries choose their algorithms then), in a DeviceStream, must not synchronize, and must read and
/// write tensors that stay in place. Sequences may share temporary memory if nothing in it has to survive a replay of
/// another.
class CudaGraphSequence {
 public:
  /// With this the work, also from a thread of its backward passes, inserts a call that is not captured: the host makes
  /// it at this point of every replay. Costs another launch each.
  using AddHostCallback = std::function<void(std::function<void()> call)>;

  /// Captures the work, which does not run.
  explicit CudaGraphSequence(const std::function<void(const AddHostCallback& add_host_callback)>& work,
                             const CudaGraphSequence* shares_memory_with = nullptr);
  ~CudaGraphSequence();
  void replay();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Waits until this thread's stream has finished its work.
void synchronize(at::Device device);

/// Peak of the bytes held by tensors on a GPU since the last reset; 0 on a CPU.
std::int64_t peak_device_bytes(at::Device device);
void reset_peak_device_bytes(at::Device device);

}  // namespace covnoise
