#pragma once
#include "covnoise/data/loader.h"
#include "covnoise/train/config.h"

#include <optional>

namespace covnoise {

/// The loaders of a run: training examples after data.train_limit (the first N) and data.holdout (the last N of those
/// set aside as validation examples), and the test set.
struct Split {
  Loader train, test;
  std::optional<Loader> validation;
};

Split make_split(const DataSource& source, const Config& config);

}  // namespace covnoise
