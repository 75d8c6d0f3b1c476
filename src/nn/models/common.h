#pragma once
#include "covnoise/nn/conv2d.h"
#include "covnoise/nn/model_zoo.h"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/pooling.h>

namespace covnoise::models {

constexpr std::int64_t kImageSize = 32;  ///< what networks made for CIFAR expect

/// Zeros around images smaller than 32x32, the same on both sides up to one pixel; larger ones stay.
at::Tensor padded_to_32(const at::Tensor& images);

/// Height and width after `padded_to_32`.
InputShape padded_to_32(InputShape shape);

Conv2d conv3x3(std::int64_t in, std::int64_t out, std::int64_t stride, bool bias);

torch::nn::MaxPool2d halving_pool();

}  // namespace covnoise::models
