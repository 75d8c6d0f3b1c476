#include "noise/structures.h"

#include "covnoise/core/error.h"
#include "covnoise/ops/random.h"
#include "noise/lower_root.h"

#include <map>

namespace covnoise {
namespace {

/// L with L L^T = G of every layer, those of one size at a time.
std::vector<at::Tensor> roots_of(const std::vector<KroneckerFactor>& factors) {
  std::map<std::int64_t, std::vector<std::size_t>> by_size;
  for (std::size_t i = 0; i < factors.size(); ++i) by_size[factors[i].output.size(0)].push_back(i);
  std::vector<at::Tensor> roots(factors.size());
  for (const auto& [size, layers] : by_size) {
    std::vector<at::Tensor> outputs;
    for (const auto layer : layers) outputs.push_back(factors[layer].output);
    const auto found = lower_root(at::stack(outputs));
    for (std::size_t i = 0; i < layers.size(); ++i) roots[layers[i]] = found[static_cast<std::int64_t>(i)];
  }
  return roots;
}

/// C = A (x) G for each linear and convolution layer (K-FAC; KFC's factors for convolutions; appendices A.6 and A.8 of
/// the paper), without damping; the diagonal for the parameters of other layers. Sampled as L Y with L L^T = G: the
/// rows of Y are draws from N(0, A) that the backward pass made from the inputs, so that A itself is never formed.
/// Cost: 1.6 to 1.7 plain steps. For correlations within a layer, at a cost that does not depend on the size of A.
class Kfac final : public NoiseStructure {
 public:
  explicit Kfac(const Needs& needs) : needs_(needs) { needs_.kronecker = true; }
  Needs needs() const override { return needs_; }

  at::Tensor sample(const GradientStatistics& statistics, const RandomStream& stream) const override {
    const auto& parameters = *statistics.parameters;
    auto noise = at::empty_like(statistics.gradient);
    fill_normal_of_variance(noise, statistics.diagonal, stream);
    const auto roots = roots_of(statistics.factors);
    for (std::size_t i = 0; i < roots.size(); ++i) {
      const auto& layer = statistics.factors[i];
      const auto multiply = [&](std::size_t entry) {
        const auto& parameter = parameters.entries()[entry];
        const auto drawn = parameters.view(statistics.draw, parameter).reshape({roots[i].size(0), -1});
        parameters.view(noise, parameter).copy_(roots[i].matmul(drawn).view(parameter.sizes));
      };
      multiply(layer.weight);
      if (layer.bias >= 0) multiply(static_cast<std::size_t>(layer.bias));
    }
    return noise;
  }

 private:
  Needs needs_;
};

}  // namespace

std::unique_ptr<NoiseStructure> make_kfac(const NoiseOptions& options, bool batch_statistics) {
  const Needs needs = squares_needs(options, batch_statistics);
  require(needs.squares != Squares::kMicro,
          "noise.estimator = \"micro\" has no Kronecker factors; for kfac use exact, ghost or spatial");
  return std::make_unique<Kfac>(needs);
}

}  // namespace covnoise
