#include "covnoise/ops/device.h"

#include "covnoise/core/error.h"
#include "covnoise/ops/internal/gpu_info.h"

#ifdef COVNOISE_HAS_CUDA
#include <ATen/Context.h>
#include <ATen/cuda/CUDAEvent.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>

#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>
#include <vector>
#endif

namespace covnoise {
namespace {

bool is_device_name(const std::string& name) {
  if (name == "cpu" || name == "cuda") return true;
  return name.rfind("cuda:", 0) == 0 && name.size() > 5 && name.size() < 8 &&
         name.find_first_not_of("0123456789", 5) == std::string::npos;
}

}  // namespace

#ifdef COVNOISE_HAS_CUDA

at::Device device_of(const std::string& name) {
  require(is_device_name(name), "run.device = \"" + name + "\" is not known; known: cpu, cuda, cuda:N");
  const at::Device device(name);
  if (!device.is_cuda()) return device;
  require_whole_gpu(std::getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"));
  const int count = c10::cuda::device_count();
  const int index = device.has_index() ? device.index() : 0;
  require(index < count, "run.device = \"" + name + "\": this machine has " + std::to_string(count) +
                             " usable GPUs; use --device cpu");
  return {at::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

void set_gpu_arithmetic(const GpuArithmetic& arithmetic) {
  auto& context = at::globalContext();
  context.setAllowTF32CuBLAS(arithmetic.tf32);
  context.setAllowTF32CuDNN(arithmetic.tf32);
  context.setBenchmarkCuDNN(!arithmetic.deterministic);
  context.setDeterministicCuDNN(arithmetic.deterministic);
}

struct DeviceStream::State {
  explicit State(at::Device device) : guard(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, device.index())) {}
  c10::cuda::CUDAStreamGuard guard;
};

DeviceStream::DeviceStream(at::Device device) : state_(device.is_cuda() ? std::make_unique<State>(device) : nullptr) {}
DeviceStream::~DeviceStream() = default;

namespace {

/// The side stream of `stream`. Each stream has its own, because a stream that takes part in a capture belongs to it
/// until the capture ends.
c10::cuda::CUDAStream side_stream_of(const c10::cuda::CUDAStream& stream) {
  static std::mutex one_at_a_time;
  static std::map<cudaStream_t, c10::cuda::CUDAStream> known;
  const std::lock_guard<std::mutex> lock(one_at_a_time);
  const auto found = known.find(stream.stream());
  if (found != known.end()) return found->second;
  return known.emplace(stream.stream(), c10::cuda::getStreamFromPool(false, stream.device_index())).first->second;
}

}  // namespace

/// Memory that the work allocates may be freed while `before` still reads it: the next user of it is also on the side
/// stream, and thus comes after everything that had been launched on `before` by then.
struct SideStream::State {
  explicit State(const c10::cuda::CUDAStream& before) : before(before), side(side_stream_of(before)) {}
  static void wait(const c10::cuda::CUDAStream& waiting, const c10::cuda::CUDAStream& for_this) {
    at::cuda::CUDAEvent event;
    event.record(for_this);
    event.block(waiting);
  }
  c10::cuda::CUDAStream before, side;
};

SideStream::SideStream(at::Device device, const std::function<void()>& work) {
  if (!device.is_cuda()) {
    work();
    return;
  }
  state_ = std::make_unique<State>(c10::cuda::getCurrentCUDAStream(device.index()));
  State::wait(state_->side, state_->before);
  const c10::cuda::CUDAStreamGuard guard(state_->side);
  work();
}

SideStream::~SideStream() {
  if (!state_) return;
  try {
    State::wait(state_->before, state_->side);
  } catch (const std::exception&) {  // CUDA errors are sticky: the next call reports this one
  }
}

/// A sequence of graphs with one memory pool: each finds what the earlier ones left there, because they are replayed in
/// the order of their capture.
struct CudaGraphSequence::State {
  struct Segment {
    at::cuda::CUDAGraph graph;
    std::function<void()> callback;  // called after the graph; none after the last
  };
  c10::MempoolId_t memory;
  std::vector<std::unique_ptr<Segment>> segments;
  bool capturing = false;

  void begin() {
    segments.push_back(std::make_unique<Segment>());
    // Only a relaxed capture may end on another thread than it began on, such as the thread of a backward pass.
    segments.back()->graph.capture_begin(memory, cudaStreamCaptureModeRelaxed);
    capturing = true;
  }
  void end() {
    if (!std::exchange(capturing, false)) return;
    segments.back()->graph.capture_end();
  }
};

CudaGraphSequence::CudaGraphSequence(const std::function<void(const AddHostCallback&)>& work,
                                     const CudaGraphSequence* shares_memory_with)
    : state_(std::make_unique<State>()) {
  static std::mutex one_at_a_time;  // per process: an allocation on another thread would break a capture
  const std::lock_guard<std::mutex> lock(one_at_a_time);
  state_->memory = shares_memory_with ? shares_memory_with->state_->memory : at::cuda::graph_pool_handle();
  state_->begin();
  try {
    work([this](std::function<void()> call) {
      state_->end();
      state_->segments.back()->callback = std::move(call);
      state_->begin();
    });
  } catch (...) {
    state_->end();
    throw;
  }
  state_->end();
}

CudaGraphSequence::~CudaGraphSequence() = default;

void CudaGraphSequence::replay() {
  for (const auto& segment : state_->segments) {
    segment->graph.replay();
    if (segment->callback) segment->callback();
  }
}

void synchronize(at::Device device) {
  if (device.is_cuda()) c10::cuda::getCurrentCUDAStream(device.index()).synchronize();
}

std::int64_t peak_device_bytes(at::Device device) {
  if (!device.is_cuda()) return 0;
  return c10::cuda::CUDACachingAllocator::getDeviceStats(device.index()).allocated_bytes[0].peak;
}

void reset_peak_device_bytes(at::Device device) {
  if (device.is_cuda()) c10::cuda::CUDACachingAllocator::resetPeakStats(device.index());
}

#else

namespace {

[[noreturn]] void no_cuda(const std::string& what) {
  throw Error(what + ": this build has no CUDA kernels; build with nvcc and a LibTorch for CUDA, or use --device cpu");
}

}  // namespace

at::Device device_of(const std::string& name) {
  require(is_device_name(name), "run.device = \"" + name + "\" is not known; known: cpu, cuda, cuda:N");
  if (name != "cpu") no_cuda("run.device = \"" + name + "\"");
  return at::kCPU;
}

void set_gpu_arithmetic(const GpuArithmetic&) {}

struct DeviceStream::State {};
DeviceStream::DeviceStream(at::Device) {}
DeviceStream::~DeviceStream() = default;

struct SideStream::State {};
SideStream::SideStream(at::Device, const std::function<void()>& work) { work(); }
SideStream::~SideStream() = default;

struct CudaGraphSequence::State {};
CudaGraphSequence::CudaGraphSequence(const std::function<void(const AddHostCallback&)>&, const CudaGraphSequence*) {
  no_cuda("a captured graph");
}
CudaGraphSequence::~CudaGraphSequence() = default;
void CudaGraphSequence::replay() { no_cuda("a captured graph"); }

void synchronize(at::Device) {}
std::int64_t peak_device_bytes(at::Device) { return 0; }
void reset_peak_device_bytes(at::Device) {}

#endif

}  // namespace covnoise
