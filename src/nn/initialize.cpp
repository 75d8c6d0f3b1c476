#include "covnoise/nn/initialize.h"

#include "covnoise/nn/batch_norm.h"
#include "covnoise/nn/conv2d.h"
#include "covnoise/nn/linear.h"
#include "covnoise/ops/random.h"

#include <torch/types.h>

#include <cmath>
#include <unordered_map>

namespace covnoise {
namespace {

/// The stream of one parameter, by its index among the module's parameters.
class Streams {
 public:
  Streams(const torch::nn::Module& module, std::uint64_t seed) : seed_(seed) {
    std::uint32_t index = 0;
    for (const auto& parameter : module.parameters()) index_[parameter.unsafeGetTensorImpl()] = index++;
  }
  RandomStream of(const at::Tensor& parameter) const {
    return {seed_, Purpose::kInitialization, index_.at(parameter.unsafeGetTensorImpl())};
  }

 private:
  std::uint64_t seed_;
  std::unordered_map<const c10::TensorImpl*, std::uint32_t> index_;
};

void fill_symmetric(const at::Tensor& parameter, double bound, const Streams& streams) {
  auto draw = at::empty(parameter.sizes(), parameter.options().requires_grad(false));
  fill_uniform(draw, streams.of(parameter));
  parameter.copy_(draw.mul_(2 * bound).sub_(bound));
}

void initialize_convolution(const Conv2dImpl& layer, const Streams& streams) {
  const auto& weight = layer.weight;
  auto draw = at::empty(weight.sizes(), weight.options().requires_grad(false));
  fill_normal(draw, streams.of(weight));
  const auto fan_out = static_cast<double>(weight.size(0) * weight.size(2) * weight.size(3));
  weight.copy_(draw.mul_(std::sqrt(2 / fan_out)));
  if (layer.bias.defined()) layer.bias.zero_();
}

void initialize_linear(const LinearImpl& layer, const Streams& streams) {
  const double bound = 1 / std::sqrt(static_cast<double>(layer.weight.size(1)));
  fill_symmetric(layer.weight, bound, streams);
  if (layer.bias.defined()) fill_symmetric(layer.bias, bound, streams);
}

void initialize_normalisation(const GhostBatchNorm2dImpl& layer) {
  layer.weight.fill_(1);
  layer.bias.zero_();
  layer.running_mean.zero_();
  layer.running_var.fill_(1);
}

}  // namespace

void initialize(torch::nn::Module& module, std::uint64_t seed) {
  const torch::NoGradGuard no_grad;
  const Streams streams(module, seed);
  module.apply([&](torch::nn::Module& part) {
    if (const auto* convolution = part.as<Conv2dImpl>()) initialize_convolution(*convolution, streams);
    if (const auto* linear = part.as<LinearImpl>()) initialize_linear(*linear, streams);
    if (const auto* normalisation = part.as<GhostBatchNorm2dImpl>()) initialize_normalisation(*normalisation);
  });
}

}  // namespace covnoise
