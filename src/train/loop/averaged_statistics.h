#pragma once
#include "train/loop/example_source.h"

#include <torch/nn/module.h>

namespace covnoise {

/// Measures the running statistics of a network's normalisation again, by passes over examples of a training set, and
/// forgets those that it had. For averaged weights: statistics of the weights that were trained do not fit them.
/// Everything but the normalisation is in evaluation mode, as where the statistics will be used.
void measure_statistics(torch::nn::Module& module, const GradientPass::Loss& loss, const ExampleSource& source,
                        const at::Tensor& indices, std::int64_t epoch, std::int64_t examples_at_once);

/// Refuses normalisation layers that are not covnoise's, whose statistics measure_statistics leaves as they are.
void refuse_foreign_normalisation(torch::nn::Module& module);

}  // namespace covnoise
