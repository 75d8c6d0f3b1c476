#pragma once
#include "covnoise/data/dataset.h"
#include "covnoise/nn/model_zoo.h"
#include "covnoise/train/config.h"

#include <memory>

namespace covnoise {

/// The network of a configuration for these data, with arbitrary weights, on the CPU.
std::shared_ptr<Model> model_for(const Config& config, const DataSource& source);

/// The network with the seed's initial weights, drawn on the CPU so that every device starts with the same ones.
std::shared_ptr<Model> initial_model(const Config& config, const DataSource& source, at::Device device);

}  // namespace covnoise
