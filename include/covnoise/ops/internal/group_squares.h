#pragma once
#include <ATen/ATen.h>

#include <cstdint>

namespace covnoise {

/// Sum over groups of squared sums over the group's `examples_per_group` consecutive examples: [M, n] -> [n].
inline at::Tensor group_squares(const at::Tensor& by_example, std::int64_t examples_per_group) {
  if (examples_per_group == 1) return by_example.pow(2).sum(0);
  TORCH_CHECK(examples_per_group > 0 && by_example.size(0) % examples_per_group == 0, by_example.size(0),
              " examples are not a whole number of groups of ", examples_per_group);
  return by_example.reshape({-1, examples_per_group, by_example.size(1)}).sum(1).pow(2).sum(0);
}

}  // namespace covnoise
