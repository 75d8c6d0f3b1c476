#pragma once
#include <ATen/core/Tensor.h>

#include <filesystem>
#include <string>
#include <vector>

namespace covnoise {

/// Labelled images as they are stored on disk: no scaling, no augmentation.
struct Dataset {
  at::Tensor images;  // uint8 [N, C, H, W]
  at::Tensor labels;  // int64 [N], each in [0, classes)
};

/// Everything training needs to know about one data set.
struct DataSource {
  std::string name;
  Dataset train, test;
  std::vector<std::string> classes;  // names, in label order
  bool augment = false;              // pad-4-crop-flip by default
  // Per channel, of the training images scaled to [0, 1] (channel_statistics).
  std::vector<double> mean, std;
};

struct DataOptions {
  std::filesystem::path directory;  // --data-dir; empty: $COVNOISE_DATA, then the usual folders (search.h)
};

/// Loads a data set by its name in the table of data_names(), or a user's own images as "folder:PATH". An unknown name
/// lists the known ones; one that is not on this machine lists the places looked in.
DataSource load_data(const std::string& name, const DataOptions& options);

/// The names load_data knows, without "folder:PATH".
std::vector<std::string> data_names();

/// Mean and standard deviation of each channel of uint8 images [N, C, H, W] scaled to [0, 1]. The sums are integers, so
/// the result does not depend on threads or order. A constant channel gets the standard deviation 1.
struct ChannelStatistics {
  std::vector<double> mean, std;
};
ChannelStatistics channel_statistics(const at::Tensor& images);

}  // namespace covnoise
