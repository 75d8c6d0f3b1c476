#pragma once
#include "covnoise/data/dataset.h"

#include <torch/types.h>

namespace covnoise::bench {

/// Random images of ten classes, for training and test alike.
inline DataSource random_source(std::int64_t examples, std::int64_t channels, std::int64_t side) {
  DataSource source;
  source.name = "random";
  source.train = source.test = {torch::randint(0, 256, {examples, channels, side, side}, torch::kUInt8),
                                torch::randint(0, 10, {examples}, torch::kInt64)};
  source.mean.assign(static_cast<std::size_t>(channels), 0.5);
  source.std.assign(static_cast<std::size_t>(channels), 0.25);
  source.classes.assign(10, "class");
  return source;
}

}  // namespace covnoise::bench
