#pragma once
#include "covnoise/train/config.h"

#include <torch/nn/module.h>

#include <string>

namespace covnoise {

/// Replaces parameters and buffers of `model` by the tensors of train.init that have their names; the file must have
/// the checksum train.init_sha256. Names and shapes must be the same, except with train.init_partial: then what does
/// not match is left as it is. Floating-point numbers may become wider, never narrower. PyTorch's counters
/// `num_batches_tracked` are passed over. Returns a line for the user.
std::string load_initial_weights(torch::nn::Module& model, const TrainConfig& train);

}  // namespace covnoise
