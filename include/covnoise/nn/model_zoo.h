#pragma once
#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace covnoise {

/// Shape of one image.
struct InputShape {
  std::int64_t channels = 3;             ///< 1 for grey images
  std::int64_t height = 32, width = 32;  ///< in pixels
};

/// What a model is made for.
struct ModelOptions {
  InputShape input;              ///< of the data set
  std::int64_t classes = 10;     ///< number of logits
  std::int64_t ghost_batch = 0;  ///< examples that share statistics of batch normalisation; 0: the whole batch
};

/// A classifier of covnoise's own layers, which can record per-example statistics.
struct Model : torch::nn::Module {
  virtual at::Tensor forward(at::Tensor images) = 0;  ///< [M, channels, height, width] -> logits [M, classes]
};

/// A model of the table, and its defaults.
struct ModelInfo {
  std::string name;                ///< as make_model takes it
  std::string summary;             ///< one line for a table
  bool batch_statistics = false;   ///< whether there is batch normalisation
  double default_lr = 0.05;        ///< at batch 128 with momentum 0.9
  double rate_exponent = 1;        ///< default learning rate at batch M: default_lr * (M / 128)^rate_exponent
  std::int64_t micro_batch = 512;  ///< approximate default micro-batch of a larger batch
};

/// A network by its name: `mlp`, `lenet`, `alexnet`, `f1`, `c1`, `vgg11|13|16|19`, `resnet<6n+2>`,
/// `resnet<6n+2>x<width>`. Smaller images are padded with zeros to 32x32 where the network needs that. Call
/// `initialize` (nn/initialize.h) to draw its parameters from a seed. An unknown name is an Error that lists the known
/// ones.
std::shared_ptr<Model> make_model(const std::string& name, const ModelOptions& options);

ModelInfo model_info(const std::string& name);

/// The names for a table; `make_model` also takes any other ResNet of 6n+2 layers and any width.
std::vector<std::string> model_names();

/// Number of trainable parameters.
std::int64_t parameter_count(const torch::nn::Module& module);

/// Multiply-adds of the linear and convolution layers for one image, forward.
std::int64_t multiply_adds(Model& model, const InputShape& input);

}  // namespace covnoise
