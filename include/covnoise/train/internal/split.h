#pragma once
#include "covnoise/data/loader.h"
#include "covnoise/train/config.h"

#include <optional>

namespace covnoise {

/// The data set that a configuration asks for.
DataRequest data_request(const Config& config);

/// The loaders of a run, on its device: the training examples (the first data.train_limit, without the last
/// data.holdout of them), the validation examples (those held out), and the test set. If the examples are sorted by
/// class, "first" and "last" are those of an order drawn by the seed.
struct Split {
  Loader train, test;
  std::optional<Loader> validation;
};

Split make_split(const DataSource& source, const Config& config);

/// The device of a configuration (run.device), with its arithmetic set according to train.precision and
/// run.deterministic. What is bf16 or tf32 on a GPU is float32 on a CPU.
at::Device training_device(const Config& config);

}  // namespace covnoise
