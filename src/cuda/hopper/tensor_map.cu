#include "cuda/hopper/tensor_map.h"

namespace covnoise::cuda {
namespace {

using Encode = decltype(&cuTensorMapEncodeTiled);

/// The driver's function, found at run time, because the program links only the CUDA runtime.
Encode encode() {
  static const Encode function = [] {
    void* found = nullptr;
    cudaDriverEntryPointQueryResult result{};
    check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &found, 12000, cudaEnableDefault, &result),
          "cuTensorMapEncodeTiled");
    if (!found) throw std::runtime_error("the driver has no cuTensorMapEncodeTiled");
    return reinterpret_cast<Encode>(found);
  }();
  return function;
}

}  // namespace

CUtensorMap tensor_map(Scalar scalar, const void* data, int n, int height, int width, int channels, const Box& box) {
  const bool wide = scalar == Scalar::kFloat32;
  const int element = bytes_of(scalar), row_bytes = box.channels * element;
  const cuuint64_t pixel = static_cast<cuuint64_t>(channels) * element, row = pixel * static_cast<cuuint64_t>(width);
  const cuuint64_t sizes[4] = {static_cast<cuuint64_t>(channels), static_cast<cuuint64_t>(width),
                               static_cast<cuuint64_t>(height), static_cast<cuuint64_t>(n)};
  const cuuint64_t strides[3] = {pixel, row, row * static_cast<cuuint64_t>(height)};
  const cuuint32_t extent[4] = {static_cast<cuuint32_t>(box.channels), static_cast<cuuint32_t>(box.columns),
                                static_cast<cuuint32_t>(box.rows), static_cast<cuuint32_t>(box.examples)};
  const cuuint32_t steps[4] = {1, 1, 1, 1};
  const CUtensorMapSwizzle swizzle = row_bytes == 32   ? CU_TENSOR_MAP_SWIZZLE_32B
                                     : row_bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                                                       : CU_TENSOR_MAP_SWIZZLE_128B;
  CUtensorMap map;
  const CUresult result =
      encode()(&map, wide ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 4,
               const_cast<void*>(data), sizes, strides, extent, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
               CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (result != CUDA_SUCCESS) throw std::runtime_error("tensor map: error " + std::to_string(result));
  return map;
}

}  // namespace covnoise::cuda
