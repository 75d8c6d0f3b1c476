#pragma once
#include "covnoise/data/dataset.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace covnoise {

class ImageStream;

/// How a Loader orders, augments and normalises.
struct LoaderOptions {
  bool augment = false;               ///< random crop of the image padded by 4 black pixels, random horizontal flip
  std::vector<double> mean;           ///< per channel, of pixels scaled to [0, 1]
  std::vector<double> std;            ///< per channel, positive
  std::uint64_t seed = 0;             ///< of the order and of the augmentation
  at::ScalarType dtype = at::kFloat;  ///< of the images: float or double; on a GPU bfloat16 as well
  at::Device device = at::kCPU;       ///< of the data set and of the images returned
};

/// The order in which `epoch` visits `size` examples: int64 [size], a permutation, on the CPU.
at::Tensor epoch_order(std::int64_t size, std::uint64_t seed, std::int64_t epoch);

/// Turns examples of a data set into inputs of a network. Has no state: everything random is a pure function of the
/// seed, the epoch and the example, so that threads, slices and resumed runs all see the same images.
class Loader {
 public:
  Loader(Dataset dataset, LoaderOptions options);

  std::int64_t size() const { return dataset_.labels.size(0); }
  at::Device device() const { return options_.device; }

  /// The order in which `epoch` visits the examples: int64 [N], a permutation; on the CPU if they are read when needed.
  at::Tensor order(std::int64_t epoch) const;

  /// Normalised images [M, C, H, W] of the examples `indices` (int64 [M]), as `epoch` sees them, augmented
  /// if options say so.
  at::Tensor images(const at::Tensor& indices, std::int64_t epoch) const;

  /// The same without augmentation, for evaluation.
  at::Tensor plain_images(const at::Tensor& indices) const;

  /// Starts to read these examples, if they are read when they are needed, in worker threads. Results do not depend on
  /// it.
  void prefetch(const at::Tensor& indices) const;

  /// Labels, int64 [M].
  at::Tensor labels(const at::Tensor& indices) const;

 private:
  at::Tensor load(const at::Tensor& indices, bool augment, std::int64_t epoch) const;

  Dataset dataset_;
  LoaderOptions options_;
  std::shared_ptr<ImageStream> stream_;  // of dataset_.reader
};

}  // namespace covnoise
