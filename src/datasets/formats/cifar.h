#pragma once
#include "covnoise/data/dataset.h"

#include <cstdint>
#include <filesystem>
#include <vector>

namespace covnoise {

/// Reads CIFAR's binary files one after another. A record is the label bytes (CIFAR-10: one; CIFAR-100: coarse, then
/// fine, which is the one used), then the red, green and blue planes of 32 x 32 bytes.
Dataset read_cifar_binary(const std::vector<std::filesystem::path>& files, std::int64_t classes);

/// The same for the python form, whose files are pickled dictionaries: "data" is uint8 [N, 3072], the labels are a list
/// under "labels" (CIFAR-10) or "fine_labels" (CIFAR-100).
Dataset read_cifar_python(const std::vector<std::filesystem::path>& files, std::int64_t classes);

}  // namespace covnoise
