#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace covnoise {

/// How pixels become the input of a network.
struct ImageTransform {
  bool augment = false;              ///< pad by 4 black pixels, crop at a random offset, flip with probability 1/2
  std::vector<double> mean, std;     ///< per channel: (pixel / 255 - mean) / std
  std::uint64_t seed = 0;            ///< of the augmentation
  at::ScalarType type = at::kFloat;  ///< float or double; on a GPU bfloat16 as well
};

/// The examples `indices` (int64 [M]) of `images` (uint8 [N, C, H, W]) as [M, C, H, W]. Crop and flip are words 0, 1
/// and 2 of block `example` of the stream (seed, augmentation, epoch): the same on every device. On a GPU
/// channels-last, and indices are not checked. torch.ops.covnoise.load_images.
at::Tensor load_images(const at::Tensor& images, const at::Tensor& indices, const ImageTransform& transform,
                       std::int64_t epoch);

/// Pixels of the images of the examples `indices` (uint8 [M, C, H, W] on the CPU), cropped and flipped as load_images
/// does it: load_images without augmentation then gives the same bits as with it.
at::Tensor augment_images(const at::Tensor& images, const at::Tensor& indices, std::uint64_t seed, std::int64_t epoch);

}  // namespace covnoise
