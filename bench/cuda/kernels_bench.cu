// Checks and times the CUDA kernels, without LibTorch.
//   kernels_bench check          every kernel against a double reference on the CPU; exit status 1 if one differs
//   kernels_bench sanitize       the same on tiny shapes, for compute-sanitizer
//   kernels_bench once [part]    every timed call once, for a profiler
//   kernels_bench time [part]    a table: kernel, shape, milliseconds, the floor by bytes and flops, their ratio
#include "support.h"

#include <cstring>
#include <exception>

namespace covnoise::cuda::bench {
namespace {

bool once = false;

template <class T>
__global__ void fill_kernel(T* data, std::size_t size, unsigned seed) {
  for (std::size_t i = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x; i < size;
       i += static_cast<std::size_t>(gridDim.x) * blockDim.x) {
    std::uint64_t h = (i + 1) * 0x9E3779B97F4A7C15ull + seed * 0xBF58476D1CE4E5B9ull;
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9ull;
    h = (h ^ (h >> 27)) * 0x94D049BB133111EBull;
    h ^= h >> 31;
    float sum = -2.0f;  // the sum of four uniforms
    for (int k = 0; k < 4; ++k) sum += static_cast<float>((h >> (16 * k)) & 0xffff) / 65536.0f;
    data[i] = static_cast<T>(sum * 1.7320508f);
  }
}

}  // namespace

void fill_random(void* data, std::size_t size, Scalar scalar, unsigned seed) {
  if (scalar == Scalar::kBFloat16)
    fill_kernel<<<1024, 256>>>(static_cast<__nv_bfloat16*>(data), size, seed);
  else
    fill_kernel<<<1024, 256>>>(static_cast<float*>(data), size, seed);
  check_launch("fill_random");
}

double milliseconds(const std::function<void(cudaStream_t)>& call, int calls, int replays) {
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  check(cudaDeviceSynchronize(), "before timing");
  call(stream);
  check(cudaStreamSynchronize(stream), "warm-up");
  if (once) return check(cudaStreamDestroy(stream), "stream"), 1;
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed), "capture");
  for (int i = 0; i < calls; ++i) call(stream);
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&executable, graph, 0), "graph");
  cudaEvent_t begin, end;
  check(cudaEventCreate(&begin), "event");
  check(cudaEventCreate(&end), "event");
  check(cudaGraphLaunch(executable, stream), "replay");
  std::vector<float> times;
  for (int i = 0; i < replays; ++i) {
    check(cudaEventRecord(begin, stream), "event");
    check(cudaGraphLaunch(executable, stream), "replay");
    check(cudaEventRecord(end, stream), "event");
    check(cudaEventSynchronize(end), "replay");
    float elapsed = 0;
    check(cudaEventElapsedTime(&elapsed, begin, end), "event");
    times.push_back(elapsed / static_cast<float>(calls));
  }
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cudaGraphExecDestroy(executable);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

int check_all(bool small) {
  Checker checker;
  check_update(checker);
  check_augment(checker);
  check_weight_gradient(checker, small);
  check_narrow_conv(checker, small);
  check_ghost_norm(checker, small);
  check_norm_sums(checker, small);
  return checker.finish();
}

void time_all(const char* part, bool only_once) {
  once = only_once;
  const auto wanted = [&](const char* name) { return !part || std::strcmp(part, name) == 0; };
  print_header();
  if (wanted("weight")) time_weight_gradient(4096);
  if (wanted("conv")) time_narrow_conv(4096);
  if (wanted("norm")) time_ghost_norm(4096);
  if (wanted("sums")) time_norm_sums(4096);
  if (wanted("update")) time_update();
  if (wanted("augment")) time_augment(4096);
}

}  // namespace covnoise::cuda::bench

int main(int argc, char** argv) {
  using namespace covnoise::cuda::bench;
  const char* command = argc > 1 ? argv[1] : "";
  try {
    if (std::strcmp(command, "check") == 0) return check_all(false);
    if (std::strcmp(command, "sanitize") == 0) return check_all(true);
    const bool only_once = std::strcmp(command, "once") == 0;
    if (only_once || std::strcmp(command, "time") == 0) return time_all(argc > 2 ? argv[2] : nullptr, only_once), 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "kernels_bench: %s\n", error.what());
    return 1;
  }
  std::fprintf(
      stderr, "usage: kernels_bench check | sanitize | once | time [weight | conv | norm | sums | update | augment]\n");
  return 2;
}
