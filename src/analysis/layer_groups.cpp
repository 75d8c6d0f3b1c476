#include "analysis/layer_groups.h"

#include <ATen/ATen.h>

namespace covnoise {

std::vector<LayerGroup> layer_groups(const FlatParameters& parameters) {
  std::vector<LayerGroup> groups;
  LayerGroup all{"all", {}, 0};
  for (std::size_t i = 0; i < parameters.entries().size(); ++i) {
    const auto& entry = parameters.entries()[i];
    const auto dot = entry.name.rfind('.');
    const std::string name = dot == std::string::npos ? entry.name : entry.name.substr(0, dot);
    if (groups.empty() || groups.back().name != name) groups.push_back({name, {}, 0});
    for (auto* group : {&groups.back(), &all}) {
      group->entries.push_back(i);
      group->parameters += entry.numel;
    }
  }
  groups.push_back(all);
  return groups;
}

double group_mean(const FlatParameters& parameters, const LayerGroup& group, const at::Tensor& buffer) {
  double sum = 0;
  for (const std::size_t i : group.entries)
    sum += parameters.view(buffer, parameters.entries()[i]).sum(at::kDouble).item<double>();
  return sum / static_cast<double>(group.parameters);
}

}  // namespace covnoise
