#pragma once
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace covnoise {

/// `cpu`, `cuda` or `cuda:1` as a device; an Error where the name is none, where this build has no CUDA kernels, or
/// where there is no such GPU.
at::Device device_of(const std::string& name);

/// What a GPU's library products may do.
struct GpuArithmetic {
  bool tf32 = false;           ///< round the factors of float32 products to tf32
  bool deterministic = false;  ///< the same bits in every run, by algorithms that may be slower
};
void set_gpu_arithmetic(const GpuArithmetic& arithmetic);

/// While it lives, this thread's work on a GPU goes to a stream of its own. Nothing on a CPU.
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

/// Work that a GPU may do beside what this thread asks for until the end of the object's life; on a CPU it is done at
/// once. The two must not write what the other one reads. Also within CudaGraphSequence.
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

/// Work on a GPU, recorded without being done, then done as often as `replay` is called: one launch instead of
/// hundreds. The work must have run before (libraries choose their algorithms then), in a DeviceStream, waits for
/// nothing, and reads and writes tensors that stay where they are. Recordings may share temporary memory if nothing in
/// it has to survive a replay of another.
class CudaGraphSequence {
 public:
  /// How the work, also from a thread of its backward passes, says what is not to be recorded, but called at this place
  /// in every replay: one more launch each.
  using AddHostCallback = std::function<void(std::function<void()> call)>;

  explicit CudaGraphSequence(const std::function<void(const AddHostCallback& add_host_callback)>& work,
                             const CudaGraphSequence* shares_memory_with = nullptr);
  ~CudaGraphSequence();
  void replay();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Waits until the work of this thread's stream is done.
void synchronize(at::Device device);

/// Most bytes that tensors have held at a time on a GPU since the last reset; 0 on a CPU.
std::int64_t peak_device_bytes(at::Device device);
void reset_peak_device_bytes(at::Device device);

}  // namespace covnoise
