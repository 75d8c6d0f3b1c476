#include "covnoise/nn/linear.h"
#include "nn/models/families.h"

#include <ATen/ATen.h>

namespace covnoise::models {
namespace {

constexpr std::int64_t kMlpHidden = 512;

/// inputs - 512 - 512 - classes with ReLU.
struct Mlp final : Model {
  explicit Mlp(const ModelOptions& options)
      : fc1(register_module("fc1", Linear(inputs(options.input), kMlpHidden))),
        fc2(register_module("fc2", Linear(kMlpHidden, kMlpHidden))),
        fc3(register_module("fc3", Linear(kMlpHidden, options.classes))) {}

  at::Tensor forward(at::Tensor images) override { return fc3(fc2(fc1(images.flatten(1)).relu_()).relu_()); }

  static std::int64_t inputs(const InputShape& shape) { return shape.channels * shape.height * shape.width; }

  Linear fc1, fc2, fc3;
};

}  // namespace

std::shared_ptr<Model> make_mlp(const ModelOptions& options) { return std::make_shared<Mlp>(options); }

}  // namespace covnoise::models
