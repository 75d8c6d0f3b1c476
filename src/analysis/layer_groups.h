#pragma once
#include "covnoise/nn/flat_parameters.h"

#include <string>
#include <vector>

namespace covnoise {

/// The parameters of one layer: `conv1.weight` and `conv1.bias` belong to `conv1`.
struct LayerGroup {
  std::string name;
  std::vector<std::size_t> entries;  ///< indices into FlatParameters::entries()
  std::int64_t parameters = 0;
};

/// In the order of the network; the last group is called "all" and has every parameter.
std::vector<LayerGroup> layer_groups(const FlatParameters& parameters);

/// Mean over the group's parameters of a buffer in the layout of `parameters`.
double group_mean(const FlatParameters& parameters, const LayerGroup& group, const at::Tensor& buffer);

}  // namespace covnoise
