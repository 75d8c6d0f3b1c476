#pragma once
#include "covnoise/data/dataset.h"
#include "covnoise/nn/model_zoo.h"
#include "covnoise/train/config.h"

#include <memory>

namespace covnoise {

/// The network of a configuration for the data, with any weights, on the CPU.
std::shared_ptr<Model> model_for(const Config& config, const DataSource& source);

/// The network of the seed: drawn on the CPU, so that it starts the same everywhere.
std::shared_ptr<Model> initial_model(const Config& config, const DataSource& source, at::Device device);

}  // namespace covnoise
