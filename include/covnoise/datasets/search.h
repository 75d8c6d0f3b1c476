#pragma once
#include "covnoise/datasets/catalog.h"

#include <filesystem>
#include <vector>

namespace covnoise {

/// The folders searched for data sets, in this order: $COVNOISE_DATA, then the roots commonly passed to torchvision; or
/// options.directory alone, if it is given. Below each, a data set may be in torchvision's layout (MNIST/raw,
/// FashionMNIST/raw, cifar-10-batches-bin, cifar-10-batches-py, cifar-100-binary, cifar-100-python), in a folder with
/// its name in covnoise, or directly.
std::vector<std::filesystem::path> data_search_places(const DataOptions& options);

}  // namespace covnoise
