#pragma once
#include "covnoise/data/dataset.h"

#include <string>

namespace covnoise {

/// SHA-256 of the images and labels of both splits, as they are in memory: the same whatever file format they came
/// from. If the loader has computed a digest, that one.
std::string data_digest(const DataSource& source);
/// The same of tensors; undefined ones are left out.
std::string data_digest(const std::vector<at::Tensor>& tensors);

}  // namespace covnoise
