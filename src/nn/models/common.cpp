#include "nn/models/common.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace covnoise::models {

at::Tensor padded_to_32(const at::Tensor& images) {
  const std::int64_t rows = std::max<std::int64_t>(0, kImageSize - images.size(2));
  const std::int64_t columns = std::max<std::int64_t>(0, kImageSize - images.size(3));
  if (rows == 0 && columns == 0) return images;
  return at::constant_pad_nd(images, {columns / 2, columns - columns / 2, rows / 2, rows - rows / 2});
}

InputShape padded_to_32(InputShape shape) {
  return {shape.channels, std::max(shape.height, kImageSize), std::max(shape.width, kImageSize)};
}

Conv2d conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride, bool bias) {
  return Conv2d(torch::nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(bias));
}

torch::nn::MaxPool2d halving_pool() { return torch::nn::MaxPool2d(torch::nn::MaxPool2dOptions(2).stride(2)); }

}  // namespace covnoise::models
