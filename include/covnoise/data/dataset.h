#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace covnoise {

/// Images that are read when they are needed, because they do not fit into memory. Its functions may be called by
/// several threads at once.
class ImageReader {
 public:
  virtual ~ImageReader() = default;
  virtual std::vector<std::int64_t> sizes() const = 0;  ///< [N, C, H, W]
  /// Writes the pixels of one image, [C, H, W].
  virtual void read(std::int64_t index, std::uint8_t* pixels) const = 0;
};

/// Labelled images as they are stored on disk: no scaling, no augmentation.
struct Dataset {
  at::Tensor images;                                    ///< uint8 [N, C, H, W]; not defined if `reader` has them
  at::Tensor labels;                                    ///< int64 [N], each in [0, classes)
  std::shared_ptr<const ImageReader> reader = nullptr;  ///< the images, if they are read when they are needed

  std::vector<std::int64_t> sizes() const;                      ///< of the images, [N, C, H, W]
  at::Tensor image(std::int64_t index) const;                   ///< uint8 [C, H, W]
  Dataset slice(std::int64_t first, std::int64_t count) const;  ///< shares the images
  Dataset select(const at::Tensor& indices) const;              ///< the examples `indices` (int64), in this order
};

/// Everything training needs to know about one data set.
struct DataSource {
  std::string name;                  ///< as it was asked for
  Dataset train, test;               ///< the two splits
  std::vector<std::string> classes;  ///< names, in label order
  bool augment = false;              ///< pad-4-crop-flip by default
  std::vector<double> mean, std;     ///< per channel, of the training images scaled to [0, 1] (channel_statistics)
  bool sorted_by_class = false;      ///< then a part of a split is drawn by the seed, not cut off
  std::string digest;                ///< of images and labels, if the loader computed one
  std::vector<std::string> notes;    ///< lines for the user about what was read
};

/// Which data set, and how its images are brought to one size: the section [data] of a configuration.
struct DataRequest {
  DataRequest(std::string name_) : name(std::move(name_)) {}  // NOLINT: a name is a request
  DataRequest(const char* name_) : name(name_) {}             // NOLINT

  std::string name;         ///< as datasets/catalog.h knows it, or as a loader of your own does
  std::int64_t resize = 0;  ///< folder: the shorter side of every image becomes this long; 0: as it is
  std::int64_t crop = 0;    ///< folder: then the central square of this side is cut out; 0: all of it
  double memory = 4;        ///< folder: a larger set, in GiB, is read from disk while training

  operator const std::string&() const { return name; }  // NOLINT: a loader of your own may take only the name
};

/// Loads a data set by its name (datasets/catalog.h has those that covnoise knows).
using DataSetByName = std::function<DataSource(const DataRequest& request)>;

/// Mean and standard deviation of each channel of uint8 images [N, C, H, W] scaled to [0, 1]. The sums are integers, so
/// the result does not depend on threads or order. A constant channel gets the standard deviation 1.
struct ChannelStatistics {
  std::vector<double> mean, std;  ///< one number per channel
};
ChannelStatistics channel_statistics(const at::Tensor& images);

}  // namespace covnoise
