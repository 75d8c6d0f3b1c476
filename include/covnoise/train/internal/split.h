#pragma once
#include "covnoise/data/loader.h"
#include "covnoise/train/config.h"

#include <optional>

namespace covnoise {

/// The loaders of a run: training examples after data.train_limit (the first N) and data.holdout (the last N of those
/// set aside as validation examples), and the test set, where the configuration trains.
struct Split {
  Loader train, test;
  std::optional<Loader> validation;
};

Split make_split(const DataSource& source, const Config& config);

/// Where a configuration trains (run.device), with that device's arithmetic set as train.precision and
/// run.deterministic say. What is in bf16 or tf32 on a GPU is float32 on a CPU.
at::Device training_device(const Config& config);

}  // namespace covnoise
