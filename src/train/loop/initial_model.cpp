#include "train/loop/initial_model.h"

#include "covnoise/nn/initialize.h"

namespace covnoise {

std::shared_ptr<Model> model_for(const Config& config, const DataSource& source) {
  const auto sizes = source.train.sizes();
  ModelOptions options;
  options.input = {sizes[1], sizes[2], sizes[3]};
  options.classes = static_cast<std::int64_t>(source.classes.size());
  options.ghost_batch = config.train.ghost_batch;
  auto model = make_model(config.model, options);
  model->to(config.train.precision == "fp64" ? torch::kFloat64 : torch::kFloat32);
  return model;
}

std::shared_ptr<Model> initial_model(const Config& config, const DataSource& source, at::Device device) {
  auto model = model_for(config, source);
  initialize(*model, config.seed);
  model->to(device);
  return model;
}

}  // namespace covnoise
