#pragma once
#include <torch/nn/module.h>

#include <cstdint>

namespace covnoise {

/// Draws the parameters of covnoise's layers in `module` from the initialisation stream of the seed, parameter i (in
/// the order of named_parameters) from its step i: the same values for any number of threads and any state of
/// LibTorch's generator. Convolutions: He normal by fan-out, N(0, 2 / (O kernel kernel)), bias 0. Linear layers,
/// PyTorch's default: weight and bias uniform in +-1/sqrt(in). Normalisation: scale 1, shift 0, running statistics 0
/// and 1. Parameters of other layers stay as they are.
void initialize(torch::nn::Module& module, std::uint64_t seed);

}  // namespace covnoise
