#include "cuda/convolution/narrow_conv.h"

#include "cuda/convolution/narrow_conv_kernel.cuh"
#include "cuda/hopper/tensor_map.h"

#include <algorithm>
#include <cstdint>

namespace covnoise::cuda {
namespace {

using namespace narrow_detail;

struct Compiled {
  Scalar scalar;
  int channels, outputs;  ///< of the product: the input's and the output's
  bool two_outputs;
  int threads, pixel_bytes, weight_bytes;
  void (*kernel)(Work);
};

template <class T, int kC, int kO, bool kTwo = false>
Compiled compiled() {
  using Kernel = Narrow<T, kC, kO, kTwo>;
  constexpr Scalar kScalar = Kernel::kRounded ? Scalar::kFloat32 : Scalar::kBFloat16;
  return {kScalar, kC, kO, kTwo, Kernel::kThreads, Kernel::kRow, Kernel::kStagesAt, narrow_kernel<T, kC, kO, kTwo>};
}

using Half = __nv_bfloat16;
const Compiled kCompiled[] = {
    compiled<Half, 16, 16>(),       compiled<Half, 16, 32>(),        compiled<Half, 32, 32>(),
    compiled<Half, 32, 64>(),       compiled<Half, 64, 64>(),        compiled<Half, 32, 16, true>(),
    compiled<Half, 64, 32, true>(), compiled<float, 16, 16>(),       compiled<float, 16, 32>(),
    compiled<float, 32, 32>(),      compiled<float, 32, 16, true>(),
};

const Compiled* find(const NarrowConvolution& call) {
  const int in = call.input_gradient ? call.outputs : call.channels;
  const int out = call.input_gradient ? call.channels : call.outputs;
  for (const Compiled& c : kCompiled)
    if (c.scalar == call.scalar && c.channels == std::max(in, 16) && c.outputs == out &&
        c.two_outputs == (call.input_gradient && call.stride == 2))
      return &c;
  return nullptr;
}

/// False if one row of the image is too long.
bool lay_out(Work& w, const Compiled& compiled) {
  const int most_rows = kPositions / w.grid_width;
  if (most_rows < 1) return false;
  w.chunk_rows = std::min(w.grid_height, most_rows);
  w.bands = divide_up(w.grid_height, w.chunk_rows);
  w.chunk_rows = divide_up(w.grid_height, w.bands);
  w.chunk_examples = w.bands > 1 ? 1 : std::min(w.examples, kPositions / (w.grid_height * w.grid_width));
  const int step = compiled.two_outputs ? 1 : w.stride, reach = compiled.two_outputs ? 2 : 3;
  w.rows = (w.chunk_rows - 1) * step + reach;
  w.columns = (w.grid_width - 1) * step + reach;
  w.stage_bytes = divide_up(w.chunk_examples * w.rows * w.columns * compiled.pixel_bytes, 1024) * 1024;
  return true;
}

struct Plan {
  const Compiled* compiled = nullptr;
  Work work{};
  int blocks = 0, shared_bytes = 0;
};

Plan make_plan(const NarrowConvolution& call) {
  Plan plan;
  plan.compiled = find(call);
  if (!plan.compiled) return plan;
  Work& w = plan.work;
  const bool backward = call.input_gradient;
  w.input = call.input, w.weights = call.weights, w.output = call.output;
  w.examples = call.examples;
  w.in_height = backward ? call.out_height() : call.height, w.in_width = backward ? call.out_width() : call.width;
  w.out_height = backward ? call.height : call.out_height(), w.out_width = backward ? call.width : call.out_width();
  w.channels = backward ? call.outputs : call.channels;
  w.stride = backward ? 1 : call.stride;
  w.halo = plan.compiled->two_outputs ? 0 : 1;
  w.grid_height = plan.compiled->two_outputs ? w.in_height : w.out_height;
  w.grid_width = plan.compiled->two_outputs ? w.in_width : w.out_width;
  const bool fits = lay_out(w, *plan.compiled);
  plan.shared_bytes = plan.compiled->weight_bytes + kStages * w.stage_bytes + 8 * kStages;
  if (!fits || plan.shared_bytes > kMostShared) plan.compiled = nullptr;
  if (!plan.compiled) return plan;
  w.engine = w.channels == plan.compiled->channels && std::max(w.rows, w.columns) <= 256 &&
             reinterpret_cast<std::uintptr_t>(w.input) % 16 == 0;
  const int resident =
      occupancy_of(reinterpret_cast<const void*>(plan.compiled->kernel), plan.compiled->threads, plan.shared_bytes);
  const int chunks = divide_up(w.examples, w.chunk_examples) * w.bands;
  plan.blocks = std::clamp(resident * multiprocessors(), 1, chunks);
  return plan;
}

/// weight [O, C, 3, 3] to packed[tap][plane of 16 bytes of inputs][column][inputs].
__global__ void pack_kernel(const float* weight, NarrowConvolution call, void* packed) {
  const int in = max(call.input_gradient ? call.outputs : call.channels, 16);
  const int out = call.input_gradient ? call.channels : call.outputs;
  const bool rounded = call.scalar == Scalar::kFloat32;
  const int plane = rounded ? 4 : 8;  // inputs
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < 9 * in * out; i += gridDim.x * blockDim.x) {
    const int k = i / (plane * out) % (in / plane) * plane + i % plane, column = i / plane % out, tap = i / (in * out);
    const int n = out == 16 ? channel_of_column<2>(column) : channel_of_column<4>(column);
    const int offset = call.input_gradient && call.stride == 1 ? 8 - tap : tap;
    const int o = call.input_gradient ? k : n, c = call.input_gradient ? n : k;
    const float value = c < call.channels ? weight[(o * call.channels + c) * 9 + offset] : 0.0f;
    if (rounded)
      static_cast<std::uint32_t*>(packed)[i] = round_tf32(__float_as_uint(value));
    else
      static_cast<__nv_bfloat16*>(packed)[i] = __float2bfloat16(value);
  }
}

}  // namespace

bool narrow_conv_supports(const NarrowConvolution& call) { return make_plan(call).compiled != nullptr; }

void narrow_conv(const NarrowConvolution& call, cudaStream_t stream) {
  Plan plan = make_plan(call);
  if (!plan.compiled) throw std::runtime_error("narrow convolution: no kernel for these channels");
  Work& w = plan.work;
  if (w.engine)
    w.map = tensor_map(call.scalar, w.input, w.examples, w.in_height, w.in_width, w.channels,
                       {w.channels, w.columns, w.rows, w.chunk_examples});
  plan.compiled->kernel<<<plan.blocks, plan.compiled->threads, plan.shared_bytes, stream>>>(w);
  check_launch("narrow convolution");
}

std::size_t packed_weight_bytes(const NarrowConvolution& call) {
  return static_cast<std::size_t>(9) * bytes_of(call.scalar) * std::max(call.channels, 16) * call.outputs;
}

void pack_weights(const NarrowConvolution& call, const float* weight, void* packed, cudaStream_t stream) {
  pack_kernel<<<8, 256, 0, stream>>>(weight, call, packed);
  check_launch("pack_weights");
}

}  // namespace covnoise::cuda
