#pragma once
#include "covnoise/data/dataset.h"

#include <string>

namespace covnoise {

/// SHA-256 of the images and labels of both splits, as they are in memory: the same whatever file format they came
/// from.
std::string data_digest(const DataSource& source);

}  // namespace covnoise
