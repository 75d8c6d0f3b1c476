#pragma once
#include "covnoise/nn/model_zoo.h"

// One function for each family of networks; their layers are described in docs/models.md.
namespace covnoise::models {

std::shared_ptr<Model> make_mlp(const ModelOptions& options);
std::shared_ptr<Model> make_lenet(const ModelOptions& options);
std::shared_ptr<Model> make_alexnet(const ModelOptions& options);
std::shared_ptr<Model> make_f1(const ModelOptions& options);
std::shared_ptr<Model> make_c1(const ModelOptions& options);

/// `layers` is 11, 13, 16 or 19.
std::shared_ptr<Model> make_vgg(std::int64_t layers, const ModelOptions& options);

/// `layers` = 6n + 2; `width` multiplies the channels 16, 32, 64.
std::shared_ptr<Model> make_resnet(std::int64_t layers, std::int64_t width, const ModelOptions& options);

}  // namespace covnoise::models
