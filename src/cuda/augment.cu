#include "cuda/augment.h"

#include "covnoise/ops/philox.h"

#include <cuda_bf16.h>

#include <algorithm>

namespace covnoise::cuda {
namespace {

constexpr int kThreads = 256, kPadding = 4;

struct Crop {
  int row = 0, column = 0;  ///< of the crop's corner in the image: -4 to 4
  bool flip = false;
};

__device__ Crop draw_crop(const RandomStream& stream, std::int64_t example) {
  const Philox4 words = stream.words(static_cast<std::uint64_t>(example));
  const auto offset = [](std::uint32_t word) {
    return static_cast<int>((std::uint64_t{word} * (2 * kPadding + 1)) >> 32) - kPadding;
  };
  return {offset(words.x[0]), offset(words.x[1]), (words.x[2] >> 31) != 0};
}

/// A block is one image. kChannels 0: any number.
template <class T, int kChannels>
__global__ void __launch_bounds__(kThreads) load_kernel(const __grid_constant__ Augmentation a) {
  extern __shared__ __align__(16) std::uint8_t image[];
  const int channels = kChannels > 0 ? kChannels : a.channels, plane = a.height * a.width, size = channels * plane;
  const std::int64_t example = a.indices[blockIdx.x];
  const std::uint8_t* source = a.images + example * size;
  if (size % 16 == 0) {
    for (int i = threadIdx.x; i < size / 16; i += kThreads)
      reinterpret_cast<uint4*>(image)[i] = reinterpret_cast<const uint4*>(source)[i];
  } else {
    for (int i = threadIdx.x; i < size; i += kThreads) image[i] = source[i];
  }
  const Crop crop = a.augment ? draw_crop({a.seed, Purpose::kAugmentation, a.epoch}, example) : Crop{};
  __syncthreads();

  struct Place {
    int c, x, y;
  };
  const auto place = [&](int i) {  // of element i of the image [H, W, C]
    const int pixel = i / channels;
    return Place{i - pixel * channels, pixel % a.width, pixel / a.width};
  };
  const auto advance = [&](Place& at) {
    if (++at.c < channels) return;
    at.c = 0;
    if (++at.x == a.width) at.x = 0, ++at.y;
  };
  const auto value = [&](const Place& at) {
    const int row = at.y + crop.row, column = (crop.flip ? a.width - 1 - at.x : at.x) + crop.column;
    const bool inside = row >= 0 && row < a.height && column >= 0 && column < a.width;
    const int pixel = inside ? image[at.c * plane + row * a.width + column] : 0;
    return fmaf(static_cast<float>(pixel), a.scale[at.c], a.shift[at.c]);
  };
  T* out = static_cast<T*>(a.out) + static_cast<long long>(blockIdx.x) * size;
  constexpr int kVector = 16 / sizeof(T);
  if (size % kVector == 0) {
    for (int i = threadIdx.x; i < size / kVector; i += kThreads) {
      union {
        T values[kVector];
        uint4 bytes;
      } group;
      Place at = place(i * kVector);
#pragma unroll
      for (int k = 0; k < kVector; ++k, advance(at)) group.values[k] = static_cast<T>(value(at));
      reinterpret_cast<uint4*>(out)[i] = group.bytes;
    }
  } else {
    for (int i = threadIdx.x; i < size; i += kThreads) out[i] = static_cast<T>(value(place(i)));
  }
}

template <class T>
void launch(const Augmentation& call, cudaStream_t stream) {
  const int bytes = divide_up(call.channels * call.height * call.width, 16) * 16;
  const auto kernel = call.channels == 3   ? load_kernel<T, 3>
                      : call.channels == 1 ? load_kernel<T, 1>
                                           : load_kernel<T, 0>;
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes), "shared memory of an image");
  kernel<<<call.examples, kThreads, bytes, stream>>>(call);
  check_launch("load_batch");
}

}  // namespace

void load_batch(const Augmentation& call, cudaStream_t stream) {
  if (call.channels > kMostImageChannels) throw std::runtime_error("load_batch: images have at most 4 channels");
  call.scalar == Scalar::kBFloat16 ? launch<__nv_bfloat16>(call, stream) : launch<float>(call, stream);
}

}  // namespace covnoise::cuda
