#pragma once
#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace covnoise {

/// Labelled images as they are stored on disk: no scaling, no augmentation.
struct Dataset {
  at::Tensor images;  ///< uint8 [N, C, H, W]
  at::Tensor labels;  ///< int64 [N], each in [0, classes)
};

/// Everything training needs to know about one data set.
struct DataSource {
  std::string name;                  ///< as it was asked for
  Dataset train, test;               ///< the two splits
  std::vector<std::string> classes;  ///< names, in label order
  bool augment = false;              ///< pad-4-crop-flip by default
  std::vector<double> mean, std;     ///< per channel, of the training images scaled to [0, 1] (channel_statistics)
};

/// Loads a data set by its name (datasets/catalog.h has those that covnoise knows).
using DataSetByName = std::function<DataSource(const std::string& name)>;

/// Mean and standard deviation of each channel of uint8 images [N, C, H, W] scaled to [0, 1]. The sums are integers, so
/// the result does not depend on threads or order. A constant channel gets the standard deviation 1.
struct ChannelStatistics {
  std::vector<double> mean, std;  ///< one number per channel
};
ChannelStatistics channel_statistics(const at::Tensor& images);

}  // namespace covnoise
